"""The children and the work asked of them: what a front end holds."""
