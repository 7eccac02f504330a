"""The one exception that means: the person can fix this. Commands print its message as one line and exit with 2."""


class UserError(Exception):
    """Bad input: the message says what was wrong, where, and what to do."""
