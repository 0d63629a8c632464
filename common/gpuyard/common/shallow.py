"""YAML by libyaml, of a bounded depth: its composer calls itself at each level, and too many would end the process."""

import yaml

DEEPEST = 100
"""Levels; no document that we read has nearly as many."""


class ShallowLoader(yaml.CSafeLoader):
    """The safe loader; what is nested too deep is an error with its line."""

    _level = 0

    def descend_resolver(self, current_node: yaml.Node | None, current_index: object) -> None:
        """Refuse to go down too far; the composer asks at each level."""
        super().descend_resolver(current_node, current_index)
        self._level += 1
        if current_node is not None and self._level > DEEPEST:
            raise yaml.composer.ComposerError(
                problem=f"nested deeper than {DEEPEST} levels", problem_mark=current_node.start_mark
            )

    def ascend_resolver(self) -> None:
        """Come up a level."""
        super().ascend_resolver()
        self._level -= 1
