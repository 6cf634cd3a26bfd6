"""Templates of the phrases that sentences are made of: who, where, when, why and how."""

from engine.demo.words import THEMES


def parse_rules(text: str) -> dict[str, tuple[str, ...]]:
    """Read a table of rules.

    A line `name:` opens a rule, every line after it is one way to write it, an indented line continues the one above.
    """
    rules: dict[str, tuple[str, ...]] = {}
    name = ""
    for line in text.strip().splitlines():
        template = line.strip().replace("\\n", "\n")
        if line.startswith(" "):
            rules[name] = (*rules[name][:-1], f"{rules[name][-1]} {template}")
        elif line.endswith(":") and " " not in line:
            name = line[:-1]
            rules[name] = ()
        else:
            rules[name] = (*rules[name], template)
    return rules


_PHRASES = """
who:
{A}
{A}
{B}
{A} and {B}
the {worker}
the {worker}
the {temper} {person}
an old {worker}
my {relative}
{A.his} {relative}
our {relative}
the {animal}
a {temper} {person}
everyone
nobody
one:
{A}
{A}
{B}
the {worker}
the {temper} {person}
my {relative}
{C}
they:
{A} and {B}
the {worker.pl}
most people
my parents
the children
we
they
you
noun:
{thing}
{thing}
{look} {thing}
{colour} {thing}
{look} {colour} {thing}
where:
at the {place}
at the {place}
near the {place}
behind the {place}
in front of the {place}
on the {seat}
under the {thing}
next to the {thing}
in {city}
by the {thing}
in a small [town|village] near {city}
far away
at home
outside
when:
yesterday
today
last {day}
last {season}
one day
one {weather} morning
in the evening
in {month}
in {year}
a long time ago
at night
after {some_meal}
two days ago
this morning
on {day}
at {hour} o'clock
every day
often_time:
every day
every {day}
in the morning
in the evening
at the weekend
in {season}
twice a week
after work
all the time
from time to time
some_meal:
breakfast
lunch
dinner
school
work
until:
until it was dark
for a long time
for {number} hours
all day
together
until the {place} was closed
with a smile
without a word
for the first time
once more
as fast as possible
because:
because it was {weather}
because {A.he} was {feeling}
because {A.he} wanted to {do}
because the {thing} was {look}
because there was no {thing}
because {B} was late
because nobody else could do it
because of the {weather} weather
say:
said
said
asked
answered
whispered
called
replied
said {manner}
shouted
modal:
can
could
should
must
will
would
might
has to
wants to
likes to
seem:
was
was
looked
seemed
felt
became
was very
was so
was not
was a little
taller:
taller
older
younger
stronger
happier
faster
cleverer
more patient
more polite
more famous
more curious
more:
bigger=big
smaller=small
older=old
longer=long
heavier=heavy
cheaper=cheap
more beautiful=beautiful
more expensive=expensive
brighter=bright
better=good
simpler=simple
newer=new
"""


def _any_theme(category: str) -> tuple[str, ...]:
    """Return what all themes together have in one category."""
    return tuple(dict.fromkeys(item for theme in THEMES.values() for item in theme[category]))


PHRASE_RULES: dict[str, tuple[str, ...]] = {
    **parse_rules(_PHRASES),
    **{f"any_{category}": _any_theme(category) for category in ("place", "thing", "do", "worker")},
}
"""Every phrase rule, and `any_place` and the like for words that leave the theme."""
