"""What may come of an input: an answer, or an error that a documentation names."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from typing import Any

from lookupstore.errors import LookupStoreError

# Errors that are no `LookupStoreError`, as they name what was wrong with an argument: a changed
# footer may have other columns than were asked for.
_ARGUMENT = re.compile(
    r"['\"]?(the files have no column|keys?|source|columns|filter|values|value_columns|key_types"
    r"|value_types)\b"
)
# A path that a text says, and that leads nowhere.
_NO_FILE = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG}


def answers(uses: list[Callable[[], Any]], argument: re.Pattern[str] = _ARGUMENT) -> int:
    """Call each; return how many have an answer, and pass on what no documentation names.

    Args:
        uses: what is called.
        argument: how an error about an argument begins.
    """
    answered = 0
    for use in uses:
        try:
            use()
            answered += 1
        except LookupStoreError:
            continue
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise
        except (ValueError, TypeError, KeyError) as error:
            if type(error) not in (ValueError, TypeError, KeyError) or not argument.match(
                str(error)
            ):
                raise
    return answered
