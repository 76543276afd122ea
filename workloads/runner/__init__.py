"""The processes behind a front end: the runner, its workers, a run from request to result."""
