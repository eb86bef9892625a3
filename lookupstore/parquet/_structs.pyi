from lookupstore.parquet.structs import Struct

BOOL: int
I16: int
I32: int
I64: int
BINARY: int
LIST: int
STRUCT: int

def decode(data: bytes) -> Struct: ...
def encode(struct: Struct) -> bytearray: ...
