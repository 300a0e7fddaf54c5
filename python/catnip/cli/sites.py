"""Commands `catnip record`, `replay` and `pages`, for recorded Web sites."""

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import click

from catnip._core import InputError, __version__
from catnip.base import extras
from catnip.base.locks import only_writer
from catnip.base.programs import program
from catnip.base.progress import Progress
from catnip.base.verbosity import Loudness, complain, loudness, note, tell
from catnip.cli.options import NOT_LOADED, NOTHING_FINISHED, RED, SEED_COUNT, Command, common, voice
from catnip.report import output
from catnip.web import commands, loads, site
from catnip.web.behaviour import Behaviour
from catnip.web.chromium import LONGEST_S, find
from catnip.web.congestion import OfCommands, choose
from catnip.web.loads import NO_SANDBOX, LinkRunner, NamedLink, Timed, Visit
from catnip.web.recorder import Recorder
from catnip.web.site import Site

if TYPE_CHECKING:
    from catnip.web.replayer import Replayer

RAW = "catnip.raw"
"""Key in `Context.meta` of all arguments of the command, including those after `--`."""
COMMAND = "catnip.command"
"""Key in `Context.meta` of the arguments after `--`."""
NOT_OF_REPLAY = {"--nat", "--resolver"}
"""Options of `catnip link` that replays do not support."""
PROXY = ("certifi", "cryptography", "h11")
"""Libraries of the recording proxy."""
VERBOSITY_OPTIONS = {Loudness.QUIET: ["--quiet"], Loudness.USUAL: [], Loudness.VERBOSE: ["--verbose"]}
VERSIONS = {"recorded": None, "1.1": site.HTTP1, "2": site.HTTP2}
"""Protocols by the values of --http."""
LEAST_MTU = 1280
"""Smallest MTU of a link with IPv6 (RFC 8200), bytes."""
MAX_NOTES = 10
"""Largest number of lines that `_print_notes` prints without --verbose."""
WITHOUT_SANDBOX = f"{NO_SANDBOX}: pages ran in the browser without its sandbox"


class _Staged(click.Command):
    """Command that may have another command after `--`, and that restarts itself in a network namespace."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Stores the arguments, and parses those before `--`."""
        ctx.meta[RAW] = list(args)
        index = args.index("--") if "--" in args else len(args)
        ctx.meta[COMMAND] = args[index + 1 :]
        return super().parse_args(ctx, args[:index])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Returns the arguments in the usage line."""
        return [self.options_metavar or ""]


folder_argument = click.argument("folder", metavar="SITE", type=click.Path(path_type=Path))
inside_option = click.option("--inside", is_flag=True, hidden=True)
sandbox_option = click.option(
    NO_SANDBOX, is_flag=True, help="Run pages in the browser without its sandbox, for kernels that forbid it."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print only JSON on stdout.")


def server_options(command: Command) -> Command:
    """Adds the options of `_behaviour` to a command."""
    http = click.option(
        "--http",
        type=click.Choice(list(VERSIONS)),
        default="recorded",
        show_default=True,
        help="Version of HTTP that servers offer over TLS: the recorded one of each origin, or one for all.",
    )
    think = click.option(
        "--think/--no-think",
        default=True,
        show_default=True,
        help="Wait before each response as long as the recorded server took for it.",
    )
    ipv6 = click.option(
        "--ipv6", is_flag=True, help="Give hosts IPv6 addresses besides their IPv4 addresses, also in DNS."
    )
    ipv6_only = click.option("--ipv6-only", is_flag=True, help="Give hosts with names only IPv6 addresses.")
    congestion = click.option(
        "--congestion",
        metavar="NAME",
        callback=_congestion_name,
        help="Congestion control of the servers and, for what they send, of the commands.  "
        "[default: that of new network namespaces]",
    )
    return http(think(ipv6(ipv6_only(congestion(command)))))


def _congestion_name(_context: click.Context, _parameter: click.Parameter, name: str | None) -> str | None:
    if name is not None and not re.fullmatch(r"[A-Za-z0-9_-]{1,15}", name):
        raise click.BadParameter(f"{name}: expected the name of a congestion control, such as cubic")
    return name


def _behaviour(
    links: Sequence[Sequence[str]],
    *,
    http: str,
    think: bool,
    ipv6: bool,
    ipv6_only: bool,
    congestion: str | None,
) -> Behaviour:
    """Returns the behaviour that options choose, for these links. Raises InputError if a link prevents it."""
    behaviour = Behaviour(
        protocol=VERSIONS[http],
        congestion=congestion,
        has_ipv4=not ipv6_only,
        has_ipv6=ipv6 or ipv6_only,
        thinks=think,
    )
    for link in links:
        if congestion is not None and loads.value_of(link, "--user") is not None:
            raise InputError("--congestion: cannot be used with --user, whose commands may not choose it")
        mtu = loads.value_of(link, "--mtu") or ""
        if behaviour.has_ipv6 and mtu.isdecimal() and int(mtu) < LEAST_MTU:
            raise InputError(f"--mtu: {mtu}: IPv6 needs links for packets of {LEAST_MTU} bytes")
    return behaviour


@click.command(
    cls=_Staged,
    options_metavar="SITE [OPTIONS] [-- COMMAND...]",
    epilog="Example: catnip record build/site --url https://www.example.org/",
)
@folder_argument
@click.option("--url", metavar="URL", help="Page to load in headless Chromium, instead of a command.")
@sandbox_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the proxy on 127.0.0.1.  [default: any free port]",
)
@click.option("--overwrite", is_flag=True, help="Replace an existing site.")
@json_option
@voice
@click.pass_context
def record(
    context: click.Context,
    folder: Path,
    url: str | None,
    no_sandbox: bool,
    port: int,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Record what a browser or another command fetches, as a SITE for replay.

    SITE is a folder. A proxy for HTTP and HTTPS, with a certificate authority (CA) of its own, runs until the
    command exits; without a command, until Ctrl-C.

    The environment of the command contains the proxy in http_proxy, https_proxy and CATNIP_PROXY, and the CA
    certificate in SSL_CERT_FILE, CURL_CA_BUNDLE and similar variables, and in CATNIP_CA. The address of the
    proxy has a password, without which other users of the machine are refused. Bodies of more than 100 MB,
    and of more than 1 GB in total, are not recorded. Chromium trusts the
    CA by --ignore-certificate-errors-spki-list=$CATNIP_CA_PIN. Servers are verified with the CAs of Mozilla,
    or those in $SSL_CERT_FILE. Incomplete responses are reported and not recorded.

    Exits with the code of the command, if it is not 0. With --json, the output of the command goes to stderr.
    """
    command = context.meta[COMMAND]
    if url is not None and command:
        raise click.UsageError("--url: cannot be used with a command")
    extras.need("record", *PROXY)
    if url is not None:
        _check_browser()
        command = [*loads.BROWSER, url, "--settle", *([NO_SANDBOX] if no_sandbox else [])]
    with only_writer(folder, "SITE"):
        site.check_folder(folder, overwrite)
        code, recorder = asyncio.run(_recorded(command, port, as_json))
        if recorder.exchanges:
            site.write(folder, recorder.exchanges, recorder.site.protocols)
    if not any(folder.iterdir()):
        folder.rmdir()
    _print_notes([f"not recorded: {lost}" for lost in recorder.lost])
    _report_recorded(folder, recorder, None if url is None else not no_sandbox, as_json)
    if code or not recorder.exchanges:
        raise click.exceptions.Exit(code or NOTHING_FINISHED)


@click.command(
    cls=_Staged,
    options_metavar="SITE [OPTIONS] [OPTIONS OF catnip link] -- COMMAND...",
    context_settings={"ignore_unknown_options": True},
    epilog="Example: catnip replay build/site --rate 5Mbit --delay 40ms -- curl -s https://www.example.org/",
)
@folder_argument
@click.argument("link", nargs=-1, type=click.UNPROCESSED, metavar="LINK")
@server_options
@json_option
@inside_option
@voice
@click.pass_context
def replay(
    context: click.Context,
    /,
    folder: Path,
    link: Sequence[str],
    as_json: bool,
    inside: bool,
    **servers: Any,
) -> None:
    """Run a command behind an emulated link to the servers of a recorded SITE.

    Each recorded host has an address of its own, and a DNS server resolves their names. The command reaches
    these servers over the link, which has the options of `catnip link`, and no other hosts.

    The response to a request is that of the recorded request with the same method, origin and path whose
    query has the longest common prefix. Other requests get 404, and are reported at the end. $CATNIP_CA is
    the certificate of the CA of all servers; SSL_CERT_FILE, CURL_CA_BUNDLE and similar variables contain it,
    too.

    Exits with the code of the command, if it is not 0. With --json, the output of the command goes to stderr.
    """
    command = context.meta[COMMAND]
    if not command:
        raise click.UsageError("COMMAND: missing; expected a command after --")
    for option in link:
        if option.partition("=")[0] in NOT_OF_REPLAY:
            raise click.UsageError(f"{option}: cannot be used with a replay")
    behaviour = _behaviour([link], **servers)
    loaded = _begun(context, "replay", folder, inside)
    code = asyncio.run(_replayed(loaded, folder, link, command, behaviour, as_json))
    if code:
        raise click.exceptions.Exit(code)


@click.command(
    cls=_Staged,
    options_metavar="SITE [OPTIONS]",
    epilog="Example: catnip pages build/site --link 'dsl: --rate 5Mbit --delay 20ms' "
    "--link 'lossy: --rate 5Mbit --delay 20ms --loss bernoulli:1%'",
)
@folder_argument
@click.option(
    "--url",
    "urls",
    metavar="URL",
    multiple=True,
    help="Page to load; repeatable.  [default: the first recorded one]",
)
@click.option(
    "--link",
    "links",
    metavar="'NAME: OPTIONS'",
    multiple=True,
    required=True,
    help="Name of a link, and its options of `catnip link`; repeatable, compared with the first link.",
)
@click.option(
    "--runs", type=SEED_COUNT, default=10, show_default=True, help="Number of loads per page and link."
)
@click.option(
    "--longest",
    "longest_s",
    type=click.FloatRange(min=0, min_open=True),
    default=LONGEST_S,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of a page load.",
)
@server_options
@sandbox_option
@inside_option
@common
@click.pass_context
def pages(
    context: click.Context,
    /,
    folder: Path,
    urls: Sequence[str],
    links: Sequence[str],
    runs: int,
    longest_s: float,
    no_sandbox: bool,
    inside: bool,
    seed: int,
    as_json: bool,
    **servers: Any,
) -> None:
    """Measure the page load times of a recorded SITE in a browser, over several links.

    Headless Chromium loads each page from the replayed servers, with a new profile per load; if root starts
    it, it belongs to a user without an account. Times are those of the browser, from the start of the
    navigation to the end of the load event, with 95 % confidence intervals. Paired loads over different links
    have the same seed, and their order alternates. Failed loads are counted and reported, but not included in
    the times.
    """
    if context.meta[COMMAND]:
        raise click.UsageError("--: `catnip pages` does not take a command")
    parsed = [NamedLink.parse(link) for link in links]
    for index, link in enumerate(parsed):
        if link.name in {other.name for other in parsed[:index]}:
            raise click.UsageError(f"--link: {link.name}: duplicate name")
    behaviour = _behaviour([link.options for link in parsed], **servers)
    loaded = _begun(context, "pages", folder, inside)
    chosen = _pages(folder, loaded, urls)
    _check_browser()
    seeds = range(seed, seed + runs)
    try:
        visits, replay = asyncio.run(
            _visited(loaded, chosen, parsed, seeds, longest_s, behaviour, not no_sandbox, as_json)
        )
    except commands.Ended as ended:
        raise click.exceptions.Exit(ended.code) from None
    if as_json:
        found = {"sandbox": not no_sandbox, **loads.document(visits, chosen, parsed), "replay": replay}
        output.print_json({"version": __version__, "site": str(folder), "seeds": list(seeds), **found})
    else:
        _print_times(visits, chosen, parsed, seeds)
    _print_notes([WITHOUT_SANDBOX] * no_sandbox)
    _print_notes([f"{one.link}, seed {one.seed}: not loaded: {one.failure}" for one in visits if one.failure])
    _print_notes([f"{one.link}, seed {one.seed}: {_red_reason(one)}" for one in visits if one.is_red])
    if any(one.failure for one in visits):
        raise click.exceptions.Exit(NOT_LOADED)
    if any(one.is_red for one in visits):
        raise click.exceptions.Exit(RED)


async def _recorded(command: Sequence[str], port: int, as_json: bool) -> tuple[int, Recorder]:
    """Runs the recording proxy while a command runs, or until a signal. Returns exit code and recorder."""
    from catnip.web.proxy import recording  # noqa: PLC0415 -- needs optional libraries

    recorder = Recorder()
    async with recording(recorder, port, os.environ.get("SSL_CERT_FILE")) as proxy:
        environment = {**proxy.authority.environment(), **_through(*proxy.address, proxy.login)}
        if not command:
            _print_notes(
                [f"{name}={environment[name]}" for name in ("CATNIP_PROXY", "CATNIP_CA", "CATNIP_CA_PIN")]
            )
            _print_notes(["recording until Ctrl-C"])
            await commands.interrupted()
            return 0, recorder
        try:
            code, *_ = await commands.run(command, environment, stdout=2 if as_json else None)
        except FileNotFoundError:
            raise _cannot_run(127, f"{command[0]}: command not found") from None
        except OSError as error:
            raise _cannot_run(126, f"{command[0]}: cannot be executed: {error.strerror}") from None
    return code, recorder


def _cannot_run(code: int, reason: str) -> click.exceptions.Exit:
    complain(reason)
    return click.exceptions.Exit(code)


def _through(host: str, port: int, login: str) -> dict[str, str]:
    """Returns the environment variables that make commands use the proxy at this host and port."""
    url = f"http://{login}@{host}:{port}"
    # Some programs read the lower-case variables, others the upper-case variables.
    names = [spelled for name in ("http_proxy", "https_proxy") for spelled in (name, name.upper())]
    return {"CATNIP_PROXY": url, **dict.fromkeys(names, url), "no_proxy": "", "NO_PROXY": ""}


def _begun(context: click.Context, name: str, folder: Path, inside: bool) -> Site:
    """Reads a site and returns it; restarts this command in a network namespace unless `inside` is set."""
    loaded = site.read(folder)
    note(f"read {folder}")
    extras.need(name, "cryptography", "dns", "h11", "h2", "pyroute2")
    if not inside:
        from catnip.web import network  # noqa: PLC0415 -- needs an optional library

        program()
        prefix = network.namespace_prefix()
        sys.stdout.flush()
        command = [sys.executable, "-P", "-m", "catnip", name, "--inside", *context.meta[RAW]]
        os.execvp(prefix[0], [*prefix, *command])
    return loaded


@asynccontextmanager
async def _served(loaded: Site, behaviour: Behaviour) -> "AsyncIterator[tuple[Replayer, LinkRunner]]":
    """Runs the servers of a site in this network namespace during the block.

    Yields the replayer, and the means to run commands behind links to the servers.
    """
    from catnip.web import network  # noqa: PLC0415 -- needs optional libraries
    from catnip.web.replayer import RESOLVER, Replayer, replaying  # noqa: PLC0415

    for name in [name for name in os.environ if name.lower() in {"http_proxy", "https_proxy", "all_proxy"}]:
        # The caller's proxy cannot be reached from this namespace.
        del os.environ[name]
    network.hide_names()
    if behaviour.congestion is not None:
        choose(behaviour.congestion)
    replayer = Replayer(loaded, behaviour)
    await network.have([RESOLVER, *chain.from_iterable(replayer.addresses.values())])
    with OfCommands(behaviour.congestion) as congestion:
        async with replaying(replayer) as authority:
            yield replayer, LinkRunner(program(), RESOLVER, authority.environment(), congestion)


async def _replayed(
    loaded: Site,
    folder: Path,
    link: Sequence[str],
    command: Sequence[str],
    behaviour: Behaviour,
    as_json: bool,
) -> int:
    options = [*link, *(["--json"] if as_json else []), *VERBOSITY_OPTIONS[loudness()]]
    async with _served(loaded, behaviour) as (replayer, runner):
        code, out, _ = await commands.run(
            runner.command(options, command), runner.environment, stdout=PIPE if as_json else None
        )
        document = _document(replayer, runner)
    _print_notes(replayer.complaints())
    if out:
        found = {"certificate": json.loads(out), "replay": document}
        output.print_json({"version": __version__, "site": str(folder), **found})
    return code


async def _visited(
    loaded: Site,
    urls: Sequence[str],
    links: Sequence[NamedLink],
    seeds: Sequence[int],
    longest_s: float,
    behaviour: Behaviour,
    has_sandbox: bool,
    quiet: bool,
) -> tuple[list[Visit], dict[str, Any]]:
    visits: list[Visit] = []
    async with _served(loaded, behaviour) as (replayer, runner):
        with Progress(quiet) as progress:
            report = progress.task("page loads")
            async for visit in loads.visits(
                replace(runner, has_sandbox=has_sandbox), urls, links, seeds, longest_s
            ):
                visits.append(visit)
                report(len(visits), len(urls) * len(links) * len(seeds))
                note(f"{visit.link}, seed {visit.seed}: {visit.load or visit.failure}")
        document = _document(replayer, runner)
    _print_notes(replayer.complaints())
    return visits, document


def _document(replayer: "Replayer", runner: LinkRunner) -> dict[str, Any]:
    """Returns the counts of a replay, for JSON."""
    counts = replayer.document()
    both = {"servers": counts.pop("congestion"), "commands": runner.congestion.counts()}
    return {**counts, "congestion": both}


def _pages(folder: Path, loaded: Site, urls: Sequence[str]) -> list[str]:
    """Returns the URLs of the pages to load, which must be in the site; by default its first page."""
    if not urls:
        if not loaded.documents:
            raise InputError(f"--url: {folder} has no recorded HTML page")
        return loaded.documents[:1]
    for url in urls:
        try:
            found = loaded.answer("GET", site.origin_of(url), site.target_of(url))
        except ValueError as error:
            raise InputError(f"--url: {url}: {error}") from error
        if found is None:
            recorded = ", ".join(loaded.documents[:3]) or "no page"
            raise InputError(f"--url: {url}: not recorded in {folder}, which has {recorded}")
    return list(dict.fromkeys(urls))


def _check_browser() -> None:
    if find("chromium") is None:
        raise InputError("chromium: not found; install it (apt install chromium)")


def _print_times(
    visits: Sequence[Visit], urls: Sequence[str], links: Sequence[NamedLink], seeds: Sequence[int]
) -> None:
    first = links[0].name
    for url in urls:
        columns = ["link", "loaded", "load event, s", "document, s"]
        rows = []
        for link in links:
            of = loads.timed(visits, url, link.name, first)
            times = ["–" if value is None else str(value) for value in (of.load_s, of.html_s)]
            rows.append([link.name, f"{of.loaded} of {of.visits}", *times])
            if len(links) > 1:
                rows[-1].append(_less(of, loads.timed(visits, url, first, first)))
        if len(links) > 1:
            columns.append(f"load event less {first}, s")
        output.print_table(f"{url}, {output.span(seeds)}", columns, rows)


def _less(of: Timed, first: Timed) -> str:
    if of.less_s is None:
        return "–"
    share = f" ({of.less_s.mean / first.load_s.mean:+.0%})" if first.load_s else ""
    return f"{of.less_s:+}{share}"


def _red_reason(visit: Visit) -> str:
    return f"the certificate is red: {'; '.join(visit.certificate.get('failures', []))}"


def _report_recorded(folder: Path, recorder: "Recorder", has_sandbox: bool | None, as_json: bool) -> None:
    """Reports what was recorded, and if a browser had its sandbox; None without a browser of ours."""
    recorded = recorder.site
    count = len(recorded.exchanges)
    size = sum(len(one.response.body) for one in recorded.exchanges)
    if as_json:
        output.print_json(
            {
                "version": __version__,
                "site": str(folder),
                "exchanges": count,
                "bytes": size,
                "origins": [str(origin) for origin in recorded.origins],
                "protocols": {str(origin): protocol for origin, protocol in recorded.protocols.items()},
                "documents": recorded.documents,
                "not_recorded": recorder.lost,
                **({} if has_sandbox is None else {"sandbox": has_sandbox}),
            }
        )
    elif count:
        _print_notes([f"{folder}: {count} responses from {len(recorded.origins)} origins, {size} bytes"])
        _print_notes([WITHOUT_SANDBOX] * (has_sandbox is False))
    if not count:
        complain(f"{folder}: nothing was recorded")


def _print_notes(lines: Sequence[str]) -> None:
    """Prints notes for the user on stderr: the first `MAX_NOTES`, all with --verbose, none with --quiet."""
    if loudness() is Loudness.QUIET:
        return
    limit = len(lines) if loudness() is Loudness.VERBOSE else MAX_NOTES
    for line in lines[:limit]:
        tell(line)
    if len(lines) > limit:
        tell(f"… and {len(lines) - limit} more, shown with --verbose")
