"""Building blocks of screens: lines, tables, plots, panes, lists, dialogs, keys, the terminal."""
