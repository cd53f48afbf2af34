// test-plan — decides which test files share a process, and in which order the processes start.
//
// Starting a process and loading the sources takes longer than most test files do, so the files of a room run in few
// processes. What starts processes of its own mostly waits: those files run alone, and one process of the others runs
// beside two of them, so that neither all wait nor all compute. The slowest start first and the short ones fill the
// end.
//
// Invariants:
//   TestPlan.T1. Every file is in exactly one process.
//   TestPlan.T2. A file that starts processes of its own (test/e2e), or measures the process that it runs in, has a
//       process to itself.
//   TestPlan.T3. Of three processes that start one after another, one computes and two wait, as long as there are both.

import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

/** Few enough that no process runs on alone at the end for long. */
const FILES_PER_PROCESS_MAX = 16;
const WAITING = "test/e2e";
/** Of those that wait, and of the folders of the others, the slowest start first, in this order; the rest follow. */
export const SLOW_FILES: readonly string[] = [
  "train",
  "examples",
  "benches",
  "train-command",
  "readme",
  "tables",
  "scaling",
  "replicas",
  "elastic-workers",
  "recovery",
  "checkpoint",
  "replicated-training",
  "launch",
  "train-devices",
  "guide",
  "durable",
  "planned-stops",
  "pslite",
  "guests",
  "package",
  "units",
  "bad-start",
].map((name) => `${WAITING}/${name}.test.ts`);
export const SLOW_FOLDERS: readonly string[] = ["test/simulation", "src/node", "test", "test/training"];
const ALONE: readonly string[] = ["test/request-path.test.ts"];

/** The files of one process, relative to the repository, in the order in which their tests run. */
export type TestProcess = { readonly folder: string; readonly files: readonly string[] };

export function planTests(files: readonly string[]): TestProcess[] {
  const folders = Map.groupBy(files.map((file) => file.replaceAll("\\", "/")).toSorted(), folderOf);
  const waiting = slowFirst(folders.get(WAITING) ?? [], SLOW_FILES).map((file) => ({ folder: WAITING, files: [file] }));
  folders.delete(WAITING);
  const computing = slowFirst([...folders.keys()], SLOW_FOLDERS).flatMap((folder) => processesOf(folder, folders.get(folder) ?? []));
  const plan: TestProcess[] = [];
  while (waiting.length > 0) plan.push(...computing.splice(0, 1), ...waiting.splice(0, 2));
  return [...plan, ...computing];
}

function slowFirst(names: readonly string[], slow: readonly string[]): string[] {
  const rank = (name: string): number => (slow.includes(name) ? slow.indexOf(name) : slow.length);
  return names.toSorted((left, right) => rank(left) - rank(right));
}

/** The files of a folder in few processes. */
function processesOf(folder: string, files: readonly string[]): TestProcess[] {
  const shared = files.filter((file) => !ALONE.includes(file));
  const processCount = Math.ceil(shared.length / FILES_PER_PROCESS_MAX);
  // In turn: neighbours in the alphabet often test the same thing, and take about as long.
  const shares = Map.groupBy(shared.keys(), (index) => index % processCount).values();
  return [
    ...files.filter((file) => ALONE.includes(file)).map((file) => ({ folder, files: [file] })),
    ...[...shares].map((indices) => ({ folder, files: indices.map((index) => shared[index] ?? "") })),
  ];
}

/**
 * What Node is to run for these processes, in order: the file itself, or one in `directory` that imports the files.
 * Empties `directory` before.
 */
export function writeEntries(processes: readonly TestProcess[], directory: string): string[] {
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  return processes.map(({ folder, files }, index) => {
    if (files.length === 1) return resolve(files[0] ?? "");
    const entry = resolve(directory, `${index}-${folder.replaceAll("/", "-")}.test.mjs`);
    writeFileSync(entry, entryText(files));
    return entry;
  });
}

/** A module that loads the files in turn. One that cannot be loaded is a test that fails, and the others run. */
function entryText(files: readonly string[]): string {
  const urls = files.map((file) => pathToFileURL(resolve(file)).href);
  return `import { test } from "node:test";
for (const url of ${JSON.stringify(urls, undefined, 2)})
  await import(url).catch((error) => test(\`\${url} loads\`, () => { throw error; }));
`;
}

/** "src/wire", "test/e2e", or "test" for what lies in it directly. */
function folderOf(file: string): string {
  const names = file.split(/[/\\]/).slice(0, -1);
  return join(...names.slice(0, 2)).replaceAll("\\", "/");
}
