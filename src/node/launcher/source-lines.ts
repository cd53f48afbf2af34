// source-lines — tells where the frames of a stack lie in the sources, for processes that the command starts. Node can
// do it for all stacks of a process, but then it reads the source map of every file that it loads, and a server takes
// 15 MB more. This reads a map when a stack is printed.

import { existsSync, readFileSync } from "node:fs";
import { SourceMap } from "node:module";
import { fileURLToPath } from "node:url";

const FRAME = /(file:\/\/[^\s()]+?\.js):(\d+):(\d+)/g;

/** The stack with places in the sources instead of places in files of `folder`, which have their maps beside them. */
export function withSourceLines(stack: string, folder: string = new URL(".", import.meta.url).href): string {
  const maps = new Map<string, SourceMap | undefined>();
  return stack.replaceAll(FRAME, (place: string, file: string, line: string, column: string) => {
    if (!file.startsWith(folder)) return place;
    if (!maps.has(file)) maps.set(file, mapOf(file));
    const origin = maps.get(file)?.findOrigin(Number(line), Number(column));
    if (origin === undefined || !("fileName" in origin)) return place;
    return `${new URL(origin.fileName, file).href}:${origin.lineNumber}:${origin.columnNumber}`;
  });
}

/** Undefined for a file that has none, as in the repository. */
function mapOf(file: string): SourceMap | undefined {
  const path = fileURLToPath(`${file}.map`);
  return existsSync(path) ? new SourceMap(JSON.parse(readFileSync(path, "utf8"))) : undefined;
}

/** Changes the stack of an error, and of its causes, in place. */
export function tellSourceLines(thrown: unknown): void {
  const told = new Set<unknown>();
  for (let error = thrown; error instanceof Error && !told.has(error); error = error.cause) {
    told.add(error);
    if (typeof error.stack === "string") Reflect.set(error, "stack", withSourceLines(error.stack)); // it may be frozen
  }
}
