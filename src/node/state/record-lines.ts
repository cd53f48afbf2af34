// record-lines — the records of a scheduler as lines of text: written once, read back by the next scheduler. Pure.
//
//   0d4a1c77 0 {"format":"weighbridge scheduler state","version":1}
//   5f0b2e91 1 [{"version":1,"kind":"start","job":"mnist/…",…}]          a batch of records
//   …
//   c2118d06 9 "end"                                                     the job has ended
//
// The first word is the CRC-32 of the rest of the line, the second the number of the line.
//
// Invariants:
//   RecordLines.L1. A batch is read whole or not at all.
//   RecordLines.L2. Only an unfinished last line is dropped: no node knows what it has. Any other line that is not
//       what was written is STATE_CORRUPT.

import { crc32 } from "node:zlib";
import { WeighbridgeError } from "../../base/errors.ts";
import type { StateRecord } from "../../scheduler/scheduler-state.ts";

const FORMAT = "weighbridge scheduler state";
const VERSION = 1;
const END = "end";
const LINE = /^([0-9a-f]{8}) ((\d+) (.*))$/;

export type RecordFile = {
  /** None once the job has ended. */
  readonly records: readonly StateRecord[];
  /** Bytes of an unfinished last line. */
  readonly unfinishedBytes: number;
};

export function headLine(): string {
  return lineOf(0, { format: FORMAT, version: VERSION });
}

export function batchLine(number: number, records: readonly StateRecord[]): string {
  return lineOf(number, records);
}

export function endLine(number: number): string {
  return lineOf(number, END);
}

function lineOf(number: number, body: unknown): string {
  const text = `${number} ${JSON.stringify(body)}`;
  return `${checksum(text)} ${text}\n`;
}

function checksum(text: string): string {
  return crc32(text).toString(16).padStart(8, "0");
}

/** Throws STATE_CORRUPT naming `path` and the line (RecordLines.L2), VERSION_MISMATCH. */
export function readLines(text: string, path: string): RecordFile {
  const lines = text.split("\n");
  const unfinished = lines.pop() ?? "";
  const [head, ...bodies] = lines.map((line, number) => bodyOf(line, number, path));
  if (head === undefined) throw corrupt(path, 1, "it is empty");
  const { format, version } = head as { readonly format?: unknown; readonly version?: unknown };
  if (format !== FORMAT) throw corrupt(path, 1, "it is not the state of a scheduler");
  if (version !== VERSION)
    throw new WeighbridgeError("VERSION_MISMATCH", `${path} has version ${String(version)}; this scheduler reads ${VERSION}; ${FIX}`);
  const isEnded = bodies.at(-1) === END;
  const records = bodies.flatMap((body) => (body === END ? [] : (body as readonly StateRecord[])));
  return { records: isEnded ? [] : records, unfinishedBytes: unfinished.length };
}

function bodyOf(line: string, number: number, path: string): unknown {
  const [, sum, rest = "", count, json = ""] = LINE.exec(line) ?? [];
  if (sum === undefined || checksum(rest) !== sum) throw corrupt(path, number + 1, "its checksum is wrong");
  if (Number(count) !== number) throw corrupt(path, number + 1, `it is line ${Number(count) + 1}`);
  return JSON.parse(json); // as it was written: the checksum says so
}

const FIX = "move it away, and a scheduler that is started there learns the job from its nodes";

function corrupt(path: string, line: number, problem: string): WeighbridgeError {
  return new WeighbridgeError("STATE_CORRUPT", `line ${line} of ${path} is not what a scheduler wrote: ${problem}; ${FIX}`);
}
