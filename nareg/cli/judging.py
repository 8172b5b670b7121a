"""What the user decides of findings, as options of commands."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nareg.errors import NaregError

if TYPE_CHECKING:
    from nareg.cleaning import StationNetwork
    from nareg.io import Recipe


@dataclass(frozen=True)
class Judging:
    """What the user decides of findings."""

    dismiss: Annotated[
        list[str] | None, typer.Option(help="A finding that is no fault, such as 'Vernal: drift'; again for more.")
    ] = None
    ranges: Annotated[
        list[str] | None,
        typer.Option("--range", help="What sensors can read: '-30 to 50', or 'Vernal: -30 to 50'; again for more."),
    ] = None
    reference: Annotated[
        list[str] | None,
        typer.Option(help="A station of known quality, which sensors beside it are compared with; again for more."),
    ] = None
    flags: Annotated[
        Literal["qartod", "labels", "binary"] | None,
        typer.Option(help="What is written for flags: QARTOD codes, words, or 1 for suspect and bad."),
    ] = None

    def added(self, recipes: list[Recipe]) -> list[Recipe]:
        """Recipes with what options say beside the entries of ``[quality]``, or in their place."""
        from nareg.quality import Rules

        results = []
        for recipe in recipes:
            rules = Rules.of(recipe.quality)
            flags = rules.flags if self.flags is None else self.flags
            dismiss, ranges = (*rules.dismiss, *(self.dismiss or ())), (*rules.ranges, *(self.ranges or ()))
            reference = (*rules.reference, *(self.reference or ()))
            rules = replace(rules, dismiss=dismiss, ranges=ranges, reference=reference, flags=flags)
            results.append(replace(recipe, quality=asdict(rules)))
        return results


def own_dismissals(read: Callable[[Recipe], StationNetwork], recipes: list[Recipe]) -> list[Recipe]:
    """Recipes of several quantities, each without other quantities' ranges, and what is about stations that only they have."""
    from nareg.quality import Rules, of_quantity, station_of

    rules, quantities = [Rules.of(recipe.quality) for recipe in recipes], [recipe.value or "" for recipe in recipes]
    if not any(rule.dismiss or rule.ranges or rule.reference for rule in rules):
        return recipes
    names: list[tuple[str, ...]] = []
    for recipe in recipes:
        with suppress(NaregError):  # a quantity that cannot be read is an error when it is cleaned
            names.append(())
            names[-1] = read(recipe).readings.names
    results = []
    for recipe, rule, own in zip(recipes, rules, names, strict=True):
        entries = (text for text in rule.dismiss if station_of(text, own) or not any(station_of(text, n) for n in names))
        mine, others = of_quantity(rule, [recipe.value or ""], ())
        _, rest = of_quantity(replace(rule, ranges=tuple(others)), quantities, ())
        ranges = (*mine.ranges, *rest)
        reference = tuple(name for name in rule.reference if name in own or not any(name in n for n in names))
        rule = replace(rule, dismiss=tuple(entries), ranges=ranges, reference=reference)
        results.append(replace(recipe, quality=asdict(rule)))
    return results
