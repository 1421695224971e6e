"""An extension of Griffe: the fields of a configuration are the arguments of its class, with types and defaults."""

from typing import Any

import griffe


class Fields(griffe.Extension):
    """Gives the `__init__` that `strict` makes when it runs to a class that is read without being run."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Add it."""
        if any(str(decorator.value) == "strict" for decorator in cls.decorators):
            fields = [
                griffe.Parameter(
                    field.name,
                    annotation=field.annotation,
                    kind=griffe.ParameterKind.keyword_only,
                    default=field.value,
                )
                for field in cls.attributes.values()
                if field.annotation is not None and "ClassVar" not in str(field.annotation)
            ]
            function = griffe.Function("__init__", parameters=griffe.Parameters(griffe.Parameter("self"), *fields))
            cls.set_member("__init__", function)


__all__ = ["Fields"]
