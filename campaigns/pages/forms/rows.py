"""Rows of inputs that a person can add and remove: parallel lists of one name a column in what the browser sends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from django.http import QueryDict


@dataclass
class Row:
    values: dict[str, str]
    errors: list[str] = field(default_factory=list)


@dataclass
class Rows:
    rows: list[Row]
    errors: list[str] = field(default_factory=list)

    def complain(self, place: int, message: str) -> None:
        if place < len(self.rows):
            self.rows[place].errors.append(message)
        else:
            self.errors.append(message)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def posted_rows(data: QueryDict, prefix: str, columns: Sequence[str], blank: Mapping[str, str]) -> Rows:
    """The rows that were sent, without those that a person left as a new row is: `blank` has a new row's values."""
    lists = [data.getlist(f"{prefix}-{column}") for column in columns]
    rows = [dict(zip(columns, values, strict=True)) for values in zip_longest(*lists, fillvalue="")]
    return Rows([Row(row) for row in rows if any(row[c].strip() != blank.get(c, "") for c in columns)])


def shown_rows(values: Sequence[Mapping[str, str]]) -> Rows:
    return Rows([Row(dict(one)) for one in values])
