"""Extension of Griffe that documents the fields of a configuration as the arguments of its class."""

from typing import Any

import griffe


class Fields(griffe.Extension):
    """Adds the `__init__` that `strict` creates at run time, which Griffe, reading the source, cannot see."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Add `__init__` to a class under `strict`, with the types and defaults of its fields."""
        if any(str(decorator.value) == "strict" for decorator in cls.decorators):
            fields = [
                griffe.Parameter(
                    field.name,
                    annotation=field.annotation,
                    kind=griffe.ParameterKind.keyword_only,
                    default=field.value,
                )
                for field in cls.attributes.values()
                if field.annotation is not None and field.value is not None and "ClassVar" not in str(field.annotation)
            ]
            function = griffe.Function("__init__", parameters=griffe.Parameters(griffe.Parameter("self"), *fields))
            cls.set_member("__init__", function)


__all__ = ["Fields"]
