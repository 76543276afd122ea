"""The processes behind a front end: the runner and its workers; a run from request to result."""
