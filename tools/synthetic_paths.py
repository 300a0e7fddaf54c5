"""Draws the recorded paths that the scenarios `satellite` and `cellular` play.

usage: tools/synthetic_paths.py FOLDER

They are drawn at random, with a seed, and stand for no operator's network: public recordings are far larger,
and have licences of their own (docs/paths.md). Their form is what is published: a satellite network assigns
satellites anew every 15 s, with another delay and rate, and losses in between (Mohan et al., WWW 2024); a
cellular link has a delay of its own for the first packet after a pause, and opportunities that come in groups
(Sentosa et al., NSDI 2025).
"""

import sys
from pathlib import Path
from random import Random

SATELLITE = """# Satellites in low orbits, assigned anew every 15 s; drawn by tools/synthetic_paths.py.
loss = "trace:leo/loss.txt"
delay = "trace:leo/delay.txt,step=100ms"

[there]
rate = "trace:leo/down.txt"

[back]
rate = "trace:leo/up.txt"
"""
CELLULAR = """# Trains and opportunities of a cellular link; drawn by tools/synthetic_paths.py.
delay = "5ms"

[there]
rate = "cell-trains:cellular/down-light.txt,heavy=cellular/down-heavy.txt,idle=20ms,bytes=1500"

[back]
rate = "cell-trains:cellular/up-light.txt,heavy=cellular/up-heavy.txt,idle=20ms,bytes=1500"
"""


def main(folder: Path) -> None:
    """Writes all files of both paths."""
    for name in ("leo", "cellular"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "leo.toml").write_text(SATELLITE)
    (folder / "cellular.toml").write_text(CELLULAR)
    for name, text in satellite(Random(2026)).items():
        (folder / "leo" / name).write_text(text)
    for name, text in cellular(Random(2026)).items():
        (folder / "cellular" / name).write_text(text)


def satellite(random: Random) -> dict[str, str]:
    """Returns a minute: delays (ms) every 100 ms, rates (Mbit/s) every second, and losses."""
    delays, down, up, losses = [], [], [], []
    for turn in range(4):
        delay, rate = random.uniform(20, 50), random.uniform(15, 60)
        delays += [delay + random.uniform(0, 3) for _ in range(150)]
        seconds = range(15 * turn, 15 * turn + 15)
        down += [(second, max(2, random.gauss(rate, rate / 8))) for second in seconds]
        up += [(second, max(0.5, random.gauss(rate / 8, rate / 40))) for second in seconds]
        losses += [(15 * turn, 0.05), (15 * turn + 0.2, 0.002), (15 * turn + 14.9, 0.05)]
    # The last value lasts as long as the one before it.
    losses.append((59.95, 0.05))
    rows = {"down.txt": down, "up.txt": up}
    rates = {name: "".join(f"{at} {mbit:.1f}\n" for at, mbit in pairs) for name, pairs in rows.items()}
    delay_lines = "".join(f"{delay:.1f}\n" for delay in delays)
    return rates | {"delay.txt": delay_lines, "loss.txt": "".join(f"{at:g} {p:g}\n" for at, p in losses)}


def cellular(random: Random) -> dict[str, str]:
    """Returns ten seconds: a train every 100 ms, and opportunities in groups, many more downwards."""
    files = {}
    for direction, group, gap_ms in (("down", 6, 8), ("up", 2, 30)):
        trains, delay, opportunities, now = [], 25.0, [], 0.0
        for at in range(0, 10_001, 100):
            delay = min(60, max(12, delay + random.gauss(0, 4)))
            times, after = [0], 0
            for _ in range(10):
                after += 0 if random.random() < 0.7 else random.randint(1, 5)
                times.append(after)
            trains.append(f"{at} {delay:.0f} " + " ".join(map(str, times)) + "\n")
        while now < 10_000:
            # Now and then the link is away for a while.
            now += random.expovariate(1 / gap_ms) if random.random() < 0.995 else random.uniform(100, 400)
            opportunities += [round(now)] * random.randint(1, 2 * group - 1)
        files[f"{direction}-light.txt"] = "".join(trains)
        files[f"{direction}-heavy.txt"] = "".join(f"{at}\n" for at in opportunities)
    return files


if __name__ == "__main__":
    main(Path(sys.argv[1]))
