"""Sentences on what a run decided or fell back to."""

from __future__ import annotations


class HasNotes:
    """Something that tells what it decided, for ``result.notes`` and ``result.json``."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What :meth:`note` was given, in that order, each sentence once."""
        return tuple(self.__dict__.get("_notes", ()))

    def note(self, sentence: str) -> None:
        """Add a sentence to :attr:`notes`, unless it is one of them.

        All ranks must add the same.
        """
        # Not set by a constructor, which subclasses need not call and dataclasses replace.
        notes = self.__dict__.setdefault("_notes", [])
        if sentence not in notes:
            notes.append(sentence)
