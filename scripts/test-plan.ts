// test-plan — decides which test files share a process, and in which order the processes start.
//
// Starting a process and loading the sources takes longer than most test files do, so the files of a room run in few processes. What starts processes
// of its own mostly waits: those files run alone and start first, so that the short ones fill the end of a run.
//
// Invariants:
//   TestPlan.T1. Every file is in exactly one process.
//   TestPlan.T2. A file that starts processes of its own (test/e2e), or measures the process that it runs in, has a process to itself.

import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

/** Few enough that no process runs on alone at the end for long. */
const FILES_PER_PROCESS_MAX = 16;
/** The slowest start first; all others follow. */
const SLOW_FOLDERS: readonly string[] = ["test/e2e", "test/simulation", "test/training", "test", "src/node"];
const ALONE: readonly string[] = ["test/e2e/", "test/request-path.test.ts"];

/** The files of one process, relative to the repository, in the order in which their tests run. */
export type TestProcess = { readonly folder: string; readonly files: readonly string[] };

export function planTests(files: readonly string[]): TestProcess[] {
  const isAlone = (file: string): boolean => ALONE.some((start) => file.replaceAll("\\", "/").startsWith(start));
  const rank = (folder: string): number => (SLOW_FOLDERS.includes(folder) ? SLOW_FOLDERS.indexOf(folder) : SLOW_FOLDERS.length);
  const folders = [...Map.groupBy(files.toSorted(), folderOf)].sort(([left], [right]) => rank(left) - rank(right));
  return folders.flatMap(([folder, members]) => {
    const shared = members.filter((file) => !isAlone(file));
    const processCount = Math.ceil(shared.length / FILES_PER_PROCESS_MAX);
    // In turn: neighbours in the alphabet often test the same thing, and take about as long.
    const shares = Map.groupBy(shared.keys(), (index) => index % processCount).values();
    return [
      ...members.filter(isAlone).map((file) => ({ folder, files: [file] })),
      ...[...shares].map((indices) => ({ folder, files: indices.map((index) => shared[index] ?? "") })),
    ];
  });
}

/** What Node is to run for these processes, in order: the file itself, or one in `directory` that imports the files. Empties `directory` before. */
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
