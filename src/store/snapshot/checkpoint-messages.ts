// checkpoint-messages — what whoever takes a checkpoint (a worker's session, the command line) asks of the servers. JSON, as all control: rare, small
// but for the manifest, and the same over a worker's link and over the scheduler's.
//
//   survey     every server    how far the clocks are, for who has no clock of its own, and the parameters there are
//   cut        every server    answers when its part of the cut is frozen
//   begin      server 0        makes the place for a checkpoint
//   write      every server    answers when its shard is on the disk
//   commit     server 0        makes the shards a checkpoint
//   abandon    every server    gives it up, and its files with it
//   load       every server    answers when this server holds what it owns of a checkpoint; nobody sees it yet
//   activate   every server    everybody sees it
//   discard    every server    forgets what was loaded
//   stage      every server    answers when this server holds what it owns of one saved parameter, beside the one there is; nobody sees it yet
//   replace    every server    it takes the place of the one there is
//   unstage    every server    forgets what was staged

import { WeighbridgeError } from "../../base/errors.ts";
import { type Check, count, list, object, optional, shortText, text } from "../../wire/json-body.ts";
import { type ServerRecord, serverRecordShape } from "./checkpoint-manifest.ts";
import { type JsonObject, jsonObject } from "./json-value.ts";
import { type ParameterRecord, parameterShape } from "./parameter-record.ts";

const NAME_LENGTH_MAX = 256;

export type CheckpointMessage<Q, R> = { readonly op: string; readonly request: Check<Q>; readonly answer: Check<R> };

type Nothing = Readonly<Record<never, never>>;
const nothing: Check<Nothing> = object({});

/** `gone`: what was cleared or replaced since the asker's last cut, of that. */
export type Survey = { readonly clockMin: number; readonly names: readonly string[]; readonly gone: readonly string[] | undefined };
export const SURVEY: CheckpointMessage<Nothing, Survey> = {
  op: "survey",
  request: nothing,
  answer: object({ clockMin: count, names: list(text), gone: optional(list(text)) }),
};

/** `id` names the save on this server from here on. */
export type Cut = { readonly id: string; readonly clock: number };
/** The parameters there were, and the run of the job. */
export type Frozen = { readonly names: readonly string[]; readonly run: string };
export const CUT: CheckpointMessage<Cut, Frozen> = {
  op: "cut",
  request: object({ id: shortText(NAME_LENGTH_MAX), clock: count }),
  answer: object({ names: list(text), run: text }),
};

/** `step` left out: the next number, and at least `stepMin`. `directory` left out: among the job's own checkpoints. */
export type Begin = { readonly step: number | undefined; readonly stepMin: number; readonly directory: string | undefined };
export type Begun = { readonly pending: string; readonly step: number };
export const BEGIN: CheckpointMessage<Begin, Begun> = {
  op: "begin",
  request: object({ step: optional(count), stepMin: count, directory: optional(shortText(NAME_LENGTH_MAX)) }),
  answer: object({ pending: text, step: count }),
};

/** A server's shard, the parameters as it has them (`rowCount` of a table is its own), and where it saw the workers. */
export type Report = {
  readonly record: ServerRecord;
  readonly parameters: readonly ParameterRecord[];
  readonly workers: readonly { readonly rank: number; readonly clock: number }[];
};
export type Write = Begun & { readonly id: string; readonly job: string; readonly parameters: readonly string[] };
export const WRITE: CheckpointMessage<Write, Report> = {
  op: "write",
  request: object({
    id: shortText(NAME_LENGTH_MAX),
    pending: shortText(NAME_LENGTH_MAX),
    step: count,
    job: shortText(NAME_LENGTH_MAX),
    parameters: list(shortText(NAME_LENGTH_MAX)),
  }),
  answer: object({ record: serverRecordShape, parameters: list(parameterShape), workers: list(object({ rank: count, clock: count })) }),
};

/** `keep`: how many checkpoints are to stay; left out, all. */
export type Commit = { readonly pending: string; readonly manifest: JsonObject; readonly keep: number | undefined };
export type Committed = { readonly path: string; readonly warning: string | undefined };
export const COMMIT: CheckpointMessage<Commit, Committed> = {
  op: "commit",
  request: object({ pending: shortText(NAME_LENGTH_MAX), manifest: jsonObject, keep: optional(count) }),
  answer: object({ path: text, warning: optional(text) }),
};

/** What was not made yet is left out. */
export type Abandon = { readonly id: string; readonly pending: string | undefined };
export const ABANDON: CheckpointMessage<Abandon, Nothing> = {
  op: "abandon",
  request: object({ id: shortText(NAME_LENGTH_MAX), pending: optional(shortText(NAME_LENGTH_MAX)) }),
  answer: nothing,
};

/** The newest, when `step` is left out. */
export type Load = { readonly step: number | undefined };
export type Loaded = { readonly step: number; readonly clock: number; readonly path: string; readonly parameters: readonly string[] };
export const LOAD: CheckpointMessage<Load, Loaded> = {
  op: "load",
  request: object({ step: optional(count) }),
  answer: object({ step: count, clock: count, path: text, parameters: list(text) }),
};

export type Step = { readonly step: number };
export const ACTIVATE: CheckpointMessage<Step, Nothing> = { op: "activate", request: object({ step: count }), answer: nothing };
export const DISCARD: CheckpointMessage<Nothing, Nothing> = { op: "discard", request: nothing, answer: nothing };

/** One parameter that was saved by itself. The newest, when `step` is left out. */
export type Stage = { readonly name: string; readonly directory: string; readonly step: number | undefined };
export const STAGE: CheckpointMessage<Stage, Step> = {
  op: "stage",
  request: object({ name: shortText(NAME_LENGTH_MAX), directory: shortText(NAME_LENGTH_MAX), step: optional(count) }),
  answer: object({ step: count }),
};
export const REPLACE: CheckpointMessage<Step, Nothing> = { op: "replace", request: object({ step: count }), answer: nothing };
export const UNSTAGE: CheckpointMessage<Nothing, Nothing> = { op: "unstage", request: nothing, answer: nothing };

/** Throws BAD_REQUEST. */
export function parseBody<T>(check: Check<T>, json: string, what: string): T {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (cause) {
    throw new WeighbridgeError("BAD_REQUEST", `${what} is not JSON`, { cause });
  }
  return check(value, what);
}
