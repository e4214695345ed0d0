"""The exceptions of the package. Each carries the library's code for what went wrong."""


class Error(RuntimeError):
    """Something Fourfold cannot do.

    `code` is one of invalid_argument, shape_mismatch, bad_file, missing_tensor, unsupported, io,
    out_of_memory.
    """

    code: str

    def __init__(self, message: str, code: str = "invalid_argument") -> None:
        super().__init__(message)
        self.code = code


class ArgumentError(Error, ValueError):
    """An argument has the wrong type, shape or value."""


class FileError(Error, OSError):
    """A file cannot be read or breaks a rule of its format.

    `path`, byte `offset`, `tensor` and `rule` (of docs/formats.md) say where; None when unknown.
    """

    path: str | None = None
    offset: int | None = None
    tensor: str | None = None
    rule: str | None = None
