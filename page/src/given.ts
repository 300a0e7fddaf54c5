// Files that a reader drops on the page: a scenario with what it names, or a recording of a page.

import type { Files } from "./engine";
import type { Given } from "./state";
import { decoded, encoded, type Bundled } from "./stored";

const MOST_BYTES = 64 << 20;
/** Scenario that loads a recording, and the file that it names. */
const OF_RECORDING = { name: "recorded-page", file: "pages/site.har" };

/** Returns the scenario that dropped files make, or throws what is wrong with them. */
export async function givenOf(dropped: File[], library: Bundled[]): Promise<Given> {
  const total = dropped.reduce((sum, { size }) => sum + size, 0);
  if (total > MOST_BYTES) {
    throw new Error(`${dropped[0]!.name}: ${total >> 20} MB, a page takes at most ${MOST_BYTES >> 20}`);
  }
  const scenarios = dropped.filter(({ name }) => name.endsWith(".toml"));
  const recordings = dropped.filter(({ name }) => /\.har$/i.test(name));
  const scenario = scenarios[0];
  if (scenario !== undefined) {
    // The first is the scenario, unless another builds on it.
    const texts = await Promise.all(scenarios.map((one) => one.text()));
    const top = texts.findIndex((_, at) => !texts.some((text, other) => other !== at && text.includes(`"${scenarios[at]!.name}"`)));
    const chosen = scenarios[Math.max(0, top)]!;
    return { path: chosen.name, text: await chosen.text(), files: await contents(dropped.filter((one) => one !== chosen)) };
  }
  const recording = recordings[0];
  const base = library.find(({ name }) => name === OF_RECORDING.name);
  if (recording === undefined || base === undefined) {
    throw new Error(`${dropped.map(({ name }) => name).join(", ")}: expected a scenario (.toml), with the files that it names, or a recording (.har)`);
  }
  const text = await recording.text();
  const origins = Math.max(1, originsOf(recording.name, text));
  const [file] = Object.values(await contents([recording]));
  return {
    path: "recorded-page.toml",
    text: base.text
      .replace(/^title = .*$/m, `title = ${JSON.stringify(recording.name)}`)
      .replace(/server = \{ kind = "host", count = \d+ \}/, `server = { kind = "host", count = ${origins} }`),
    files: { [OF_RECORDING.file]: file! },
  };
}

/** Returns the number of origins of a recording. */
function originsOf(name: string, text: string): number {
  let entries: unknown;
  try {
    entries = (JSON.parse(text) as { log?: { entries?: unknown } }).log?.entries;
  } catch (failure) {
    throw new Error(`${name}: ${failure instanceof Error ? failure.message : "no JSON"}`);
  }
  const urls = (Array.isArray(entries) ? entries : []).map((one: { request?: { url?: unknown } } | null) => one?.request?.url);
  const origins = urls.flatMap((url) => {
    try {
      return [new URL(String(url)).origin];
    } catch {
      return [];
    }
  });
  return new Set(origins).size;
}

async function contents(files: File[]): Promise<Record<string, string>> {
  const read = files.map(async (one) => [one.name, encoded(new Uint8Array(await one.arrayBuffer()))] as const);
  return Object.fromEntries(await Promise.all(read));
}

/** Returns the contents of the files of a scenario that the page does not have. */
export function filesOf({ files }: Given): Files {
  const entries = Object.entries(files).map(([name, text]) => [name, decoded(text)] as const);
  return Object.fromEntries(entries);
}
