"""Every table, figure and claim of the five source documents, beside what is recorded.

``claims`` has the rows and the rules of their verdicts; ``poster``, ``clustering``,
``isometry`` and ``saddlefree`` go through one document each, from its beginning to its end;
``page`` writes them down.
"""
