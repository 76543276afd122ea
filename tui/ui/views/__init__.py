"""What the screens say, as lines of text: pure functions of the store, without a widget."""
