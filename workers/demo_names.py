"""Invented names for the demo world: titles in twelve kinds of games, and first names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")

#: A kind of game a line: beginnings and endings of its titles.
TITLE_PARTS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (
        ("Marmalade", "Thistle", "Puddle", "Turnip", "Comet Goose", "Brass Snail", "Velvet Badger", "Lantern Newt"),
        ("Gondola Grand Prix", "Teacart Derby", "Rollerskate Rally", "Soapbox Regatta", "Bathtub Sprint", "Kite Cup"),
    ),
    (
        ("Turnipshire", "Mossbarn", "Beanpole Hollow", "Pumpkin Parish", "Wibbleton", "Honeyfork", "Lower Radish"),
        ("Almanac", "Harvest Days", "Orchard Stories", "Beekeepers", "Allotment", "Market Morning", "Scarecrow Diary"),
    ),
    (
        ("The Clockmender's", "Professor Quillfeather's", "Auntie Parallax's", "Doctor Inkling's", "Madame Tessera's"),
        ("Folding Cabinet", "Second Riddle", "Drawer of Keys", "Impossible Teapot", "Patient Maze", "Marble Machine"),
    ),
    (
        ("Pelican Nebula", "Kestrel Station", "Moonbarge", "Stardust Ferry", "Quiet Antenna", "Copper Satellite"),
        ("Salvage Crew", "Cargo Run", "Mapmakers", "Botanists", "Dispatch", "Lighthouse Keepers", "Freight Union"),
    ),
    (
        ("Thornwhistle", "Emberquill", "Saltmarrow", "Grimblewood", "Moonbriar", "Ottermoor", "Fennelgard"),
        ("and the Borrowed Crown", "Saga", "Wanderers", "Beneath the Barrow", "Rekindled", "Errantry", "and the Spoon"),
    ),
    (
        ("Copperhithe", "Bridgewimble", "Tramlington", "Cobbleport", "Funicular Falls", "Lockford", "Gaslight Quay"),
        ("Planner", "Tramways", "Town Council", "Rooftops", "Waterworks", "Night Shift", "Zoning Board"),
    ),
    (
        ("Dumpling", "Pickle Street", "Midnight Waffle", "Captain Soup's", "Noodle Lantern", "Crumpet", "Pepperpot"),
        ("Bistro", "Canteen", "Food Cart", "Cook-Off", "Pantry", "Supper Club", "Bakehouse", "Recipe Duel"),
    ),
    (
        ("Backyard Pigeon", "Lighthouse", "Wobbly", "Grand Alpine Goat", "Seaside", "Moonlit", "Two-Left-Feet"),
        ("Croquet Masters", "Curling Club", "Skittles Tour", "Dodgeball Society", "Minigolf Open", "Hurdles Week"),
    ),
    (
        ("Pogo Bramble's", "Captain Biscuit's", "Little Gizmo's", "Zip Otter's", "Sir Bounce's", "Hattie Spring's"),
        ("Rooftop Run", "Toadstool Jump", "Tower of Socks", "Paper Hills", "Candle Caves", "Windmill Leap"),
    ),
    (
        ("Teacup", "Cardboard", "Porcelain", "Penguin", "Thimble", "Snowglobe", "Gooseherd", "Inkwell"),
        ("Empires", "Admirals", "Barons", "Republic", "Siege", "Treaties", "Frontier", "Parliament"),
    ),
    (
        ("Cobweb", "Moth Hour", "Fogbell", "Candlewick", "Crooked Stair", "Drowsy Lantern", "Marrowgate"),
        ("Manor", "Hallway 13", "Lodgers", "Night Porter", "Lullaby", "Portraits", "Wake-Up Call"),
    ),
    (
        ("Accordion", "Brass Cricket", "Ukulele Moon", "Harbour Choir", "Humming Whale", "Metronome", "Kettle Drum"),
        ("Parade", "Nights", "Serenade", "Street Band", "Jam Session", "Waltz", "Encore", "Rehearsal"),
    ),
)

_BEGINNINGS = (
    *("Al", "Bri", "Cor", "Dal", "El", "Fen", "Gar", "Hes", "Il", "Jor", "Kes", "Lor", "Mir"),
    *("Nev", "Or", "Pel", "Quil", "Ros", "Sel", "Tam", "Ul", "Ver", "Wil", "Yar", "Zor", "Thes"),
)
_MIDDLES = ("a", "e", "i", "o", "ba", "de", "li", "mo", "na", "ri", "sa", "vi")
_ENDINGS = ("bel", "dor", "dra", "len", "lyn", "mir", "nel", "ric", "ton", "ven", "via", "wen")


def game_titles(kind: int, count: int, random: Callable[[], float]) -> list[str]:
    """Distinct titles of one kind of game, its parts taken in turn so that none comes up again and again."""
    beginnings, endings = TITLE_PARTS[kind]
    beginnings, endings = tuple(shuffled(beginnings, random)), tuple(shuffled(endings, random))
    # Round after round the endings are shifted by one against the beginnings: every pair comes once.
    pairs = [
        (beginning, endings[(place + shift) % len(endings)])
        for shift in range(len(endings))
        for place, beginning in enumerate(beginnings)
    ]
    return [" ".join(pair) for pair in pairs[:count]]


def first_names(count: int, random: Callable[[], float]) -> list[str]:
    """Distinct first names."""
    names = [beginning + middle + ending for beginning in _BEGINNINGS for middle in _MIDDLES for ending in _ENDINGS]
    return shuffled(names, random)[:count]


def shuffled(items: Sequence[Item], random: Callable[[], float]) -> list[Item]:
    """The items in another order (Fisher and Yates), the same for the same `random` in every Python."""
    result = list(items)
    for last in range(len(result) - 1, 0, -1):
        other = int(random() * (last + 1))
        result[last], result[other] = result[other], result[last]
    return result
