// Waterfall of one page of both runs: when each object was requested, and when its last byte arrived.

import { tag } from "../controls";
import { told } from "../charts";
import type { Reply } from "../message";

interface Fetch {
  object: number;
  bytes: number;
  startS: number;
  /** Parts of its time, one behind the other, s; the last ends with the last byte. */
  parts: { kind: string; s: number }[];
  isOver: boolean;
}

interface Load {
  key: string;
  page: number;
  startS: number;
  timeS: number;
  fetches: Fetch[];
}

const NAMES: Record<string, string> = {
  look_up: "name",
  connect: "connection",
  tls: "TLS",
  wait: "request",
  first: "first byte",
  receive: "data",
};
const MOST_ROWS = 120;

/** Draws the load with the median time of the first run, and the same one of the second. */
export function drawWaterfalls(place: HTMLElement, names: [string, string], replies: [Reply, Reply]): void {
  const loads = replies.map(loadsOf);
  const over = loads[0]!.filter(({ timeS }) => Number.isFinite(timeS)).sort((a, b) => a.timeS - b.timeS);
  const chosen = over[Math.floor((over.length - 1) / 2)];
  if (chosen === undefined) {
    place.replaceChildren(tag("p", {}, "These runs load no pages, or none has ended."));
    return;
  }
  const pair = [chosen, loads[1]!.find(({ key }) => key === chosen.key)];
  const longestS = Math.max(...pair.map((load) => (load === undefined ? 0 : lengthOf(load))));
  const parts = pair.map((load, at) =>
    load === undefined
      ? tag("p", {}, `${names[at]}: this page has not begun.`)
      : tag("figure", {}, tag("figcaption", {}, `${names[at]}: page ${load.page}, ${Number.isFinite(load.timeS) ? `${told(load.timeS)} s` : "not over"}`), waterfall(load, longestS)),
  );
  const kinds = [...new Set(pair.flatMap((load) => (load?.fetches ?? []).flatMap(({ parts: of }) => of.map(({ kind }) => kind))))];
  const legend = tag("p", { class: "legend" }, ...kinds.map((kind) => tag("span", {}, tag("i", { class: `part ${kind}` }), NAMES[kind]!)));
  place.replaceChildren(legend, tag("div", { class: "pair wide" }, ...parts));
}

function lengthOf({ startS, fetches, timeS }: Load): number {
  return Math.max(Number.isFinite(timeS) ? timeS : 0, ...fetches.map((one) => one.startS - startS + total(one)));
}

function total({ parts }: Fetch): number {
  return parts.reduce((sum, { s }) => sum + s, 0);
}

function waterfall(load: Load, longestS: number): HTMLElement {
  const left = (s: number): string => `${(100 * s) / (longestS || 1)}%`;
  const rows = load.fetches.slice(0, MOST_ROWS).map((fetch) => {
    const bar = tag("div", { class: "bars" });
    let atS = fetch.startS - load.startS;
    for (const { kind, s } of fetch.parts) {
      const part = tag("i", { class: `part ${kind}`, title: `${NAMES[kind]}: ${told(1e3 * s)} ms` });
      part.style.left = left(atS);
      part.style.width = left(s);
      bar.append(part);
      atS += s;
    }
    const name = fetch.object === 0 ? "HTML" : `object ${fetch.object}`;
    const says = `${name}, ${told(fetch.bytes / 1e3)} kB, from ${told(fetch.startS - load.startS)} s for ${told(total(fetch))} s${fetch.isOver ? "" : ", not over"}`;
    return tag("li", { "aria-label": says }, tag("span", { class: "name" }, `${name}, ${told(fetch.bytes / 1e3)} kB`), bar);
  });
  const list = tag("ol", { class: "waterfall", tabindex: "0", "aria-label": `objects, 0 to ${told(longestS)} s` }, ...rows);
  return list;
}

function loadsOf({ arrays }: Reply): Load[] {
  const of = (name: string): ArrayLike<number> => arrays[name]!;
  const seen = new Map<string, number>();
  const loads = Array.from({ length: of("pages.page").length }, (_, row): Load => {
    const client = of("pages.client")[row]!, page = of("pages.page")[row]!;
    return { key: `${client} ${page}`, page, startS: of("pages.start_s")[row]!, timeS: of("pages.time_s")[row]!, fetches: [] };
  }).sort((a, b) => a.startS - b.startS);
  const byClient = new Map<string, Load[]>();
  for (const load of loads) {
    const number = seen.get(load.key) ?? 0;
    seen.set(load.key, number + 1);
    byClient.set(load.key, [...(byClient.get(load.key) ?? []), load]);
    load.key = `${load.key} ${number}`;
  }
  const table = of("fetches.object").length > 0 ? "fetches" : "objects";
  for (let row = 0; row < of(`${table}.object`).length; row += 1) {
    const client = of(`${table}.client`)[row]!, page = of(`${table}.page`)[row]!, startS = of(`${table}.start_s`)[row]!;
    const load = (byClient.get(`${client} ${page}`) ?? []).findLast((one) => one.startS <= startS + 1e-9);
    const timeS = of(`${table}.time_s`)[row]!;
    const value = (name: string): number => Math.max(0, of(`${table}.${name}`)[row]! || 0);
    const parts =
      table === "objects"
        ? [{ kind: "receive", s: Number.isFinite(timeS) ? timeS : 0 }]
        : partsOf(value("look_up_s"), value("connect_s"), value("tls_s"), value("sent_s"), value("first_byte_s"), timeS);
    load?.fetches.push({ object: of(`${table}.object`)[row]!, bytes: of(`${table}.bytes`)[row]!, startS, parts, isOver: Number.isFinite(timeS) });
  }
  for (const { fetches } of loads) {
    fetches.sort((a, b) => a.startS - b.startS || a.object - b.object);
  }
  return loads;
}

function partsOf(lookUpS: number, connectS: number, tlsS: number, sentS: number, firstByteS: number, timeS: number): Fetch["parts"] {
  const before = lookUpS + connectS + tlsS;
  const parts = [
    { kind: "look_up", s: lookUpS },
    { kind: "connect", s: connectS },
    { kind: "tls", s: tlsS },
    { kind: "wait", s: Math.max(0, sentS - before) },
    { kind: "first", s: Math.max(0, firstByteS - sentS) },
    { kind: "receive", s: Math.max(0, (Number.isFinite(timeS) ? timeS : firstByteS) - firstByteS) },
  ];
  return parts.filter(({ s }) => s > 0);
}
