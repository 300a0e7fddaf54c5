// Files that a reader takes along: the scenario, tables, pictures and logs.

import type { Client } from "./client";
import type { Reply, Values } from "./message";

/** Hands a file to the browser. */
export function save(name: string, type: string, content: BlobPart): void {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Returns the rows of a table of both runs as CSV, with the name of the variant in the first column. */
export function csv(table: string, names: [string, string], replies: [Reply, Reply]): string {
  const columns = Object.keys(replies[0].arrays).filter((name) => name.startsWith(`${table}.`));
  const lines = [["variant", ...columns.map((name) => name.slice(table.length + 1)).filter((name) => name !== "variant")]];
  replies.forEach(({ head, arrays }, at) => {
    const texts = head["texts"] as Record<string, string[]>;
    const of = columns.filter((name) => name !== `${table}.variant`).map((name) => [texts[name], arrays[name]!] as const);
    const rows = arrays[columns[0]!]!.length;
    for (let row = 0; row < rows; row += 1) {
      lines.push([names[at]!, ...of.map(([words, values]) => cell(words, values, row))]);
    }
  });
  return lines.map((line) => line.map(quoted).join(",")).join("\n") + "\n";
}

function cell(words: string[] | undefined, values: Values, row: number): string {
  const value = values[row]!;
  return words === undefined ? (Number.isNaN(value) ? "" : String(value)) : words[value]!;
}

/** Quotes a cell; a text that a spreadsheet would compute has an apostrophe before it. */
function quoted(text: string): string {
  const safe = /^[=+@\t\r]|^-(?!\d)/.test(text) ? `'${text}` : text;
  return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Returns a picture with all drawings of a view as they lie on the page. */
export async function picture(view: HTMLElement, paper: string): Promise<Blob> {
  const drawings = [...view.querySelectorAll("canvas")].filter((one) => one.width > 0 && one.offsetParent !== null);
  const outer = view.getBoundingClientRect(), scale = devicePixelRatio;
  const all = document.createElement("canvas");
  all.width = Math.ceil(outer.width * scale);
  all.height = Math.ceil(outer.height * scale);
  const ctx = all.getContext("2d")!;
  ctx.fillStyle = paper;
  ctx.fillRect(0, 0, all.width, all.height);
  for (const one of drawings) {
    const at = one.getBoundingClientRect();
    ctx.drawImage(one, (at.left - outer.left) * scale, (at.top - outer.top) * scale, at.width * scale, at.height * scale);
  }
  ctx.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--ink");
  ctx.font = `600 ${15 * scale}px Arial, sans-serif`;
  ctx.textAlign = "center";
  for (const title of view.querySelectorAll<HTMLElement>(".u-title")) {
    const at = title.getBoundingClientRect();
    ctx.fillText(title.textContent ?? "", (at.left + at.width / 2 - outer.left) * scale, (at.bottom - outer.top - 4) * scale);
  }
  return new Promise((resolve) => all.toBlob((blob) => resolve(blob!), "image/png"));
}

/** Returns the log of a run as pcapng or qlog. */
export async function log(client: Client, variant: string, seed: number, format: "pcapng" | "qlog"): Promise<Values> {
  const { arrays } = await client.ask({ ask: "log", variant, seed, format });
  return arrays["log"]!;
}
