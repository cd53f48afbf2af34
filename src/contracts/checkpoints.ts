// checkpoints — what a worker's session or the command line calls, to take or restore a checkpoint, on the
// servers. What a parameter's record and a manifest consist of is the checkpoint format's business (store/snapshot);
// here they are JSON objects.
//
//   survey     every server    how far the clocks are, for callers without a clock of their own, and which parameters
//                              exist
//   cut        every server    answers when its part of the cut is frozen
//   begin      first server    makes the directory for a checkpoint
//   write      every server    answers when its shard is on the disk
//   commit     first server    makes the shards a checkpoint
//   abandon    every server    gives it up, and its files with it
//   load       every server    answers when this server holds what it owns of a checkpoint; nobody sees it yet
//   activate   every server    everybody sees it
//   discard    every server    forgets what was loaded
//   stage      every server    answers when this server holds what it owns of one saved parameter, beside the present
//                              one; nobody sees it yet
//   replace    every server    it replaces the present one
//   unstage    every server    forgets what was staged
//
// Saving one parameter (Hetu: ParamSave) takes a checkpoint of it alone, by the same functions.

import { type FieldValues, type JsonField, json } from "../wire/function-schema.ts";
import { count, flag, list, object, optional, shortText, text } from "../wire/json-body.ts";
import { type JsonObject, jsonObject } from "../wire/json-value.ts";
import { type Contract, serverUpdate } from "./contract.ts";

const shortName = shortText(256);

type Nothing = Readonly<Record<never, never>>;
type Name = JsonField<string>;
type Names = JsonField<readonly string[]>;
type Count = JsonField<number>;
type Maybe<F> = F extends JsonField<infer T> ? JsonField<T | undefined> : never;
const nothing: Nothing = {};
const name: Name = json(shortName);
const names: Names = json(list(text));
const number: Count = json(count);
const maybeNumber: Maybe<Count> = json(optional(count));
const maybeName: Maybe<Name> = json(optional(shortName));

/**
 * `gone`: parameters of the caller's last cut that were cleared or replaced since. `waits`: what a cut of the caller
 * waits for, in words; "" for nothing.
 */
type SurveyFields = { readonly clockMin: "u32"; readonly names: Names; readonly gone: Maybe<Names>; readonly waits: "string" };
const surveyFields: SurveyFields = { clockMin: "u32", names, gone: json(optional(list(text))), waits: "string" };
/** `id` names the save on this server from here on. `isWhole`: sums are in it, too, not only parameters. */
type CutFields = { readonly id: Name; readonly clock: "u32"; readonly isWhole: "bool" };
const cutFields: CutFields = { id: name, clock: "u32", isWhole: "bool" };
/** The parameters there were, the run of the job, and the epoch and the servers of the placement at the cut. */
type FrozenFields = { readonly names: Names; readonly run: "string"; readonly epoch: "u32"; readonly servers: "u32[]" };
const frozenFields: FrozenFields = { names, run: "string", epoch: "u32", servers: "u32[]" };
/** `step` left out: the next number, and at least `stepMin`. `directory` left out: among the job's own checkpoints. */
type BeginFields = { readonly step: Maybe<Count>; readonly stepMin: Count; readonly directory: Maybe<Name> };
const beginFields: BeginFields = { step: maybeNumber, stepMin: number, directory: maybeName };
type BegunFields = { readonly pending: "string"; readonly step: Count };
const begunFields: BegunFields = { pending: "string", step: number };
type WriteFields = { readonly id: Name; readonly pending: Name; readonly step: Count; readonly job: Name; readonly parameters: Names };
const writeFields: WriteFields = { id: name, pending: name, step: number, job: name, parameters: json(list(shortName)) };
/**
 * The server's shard, the parameters as it has them (`rowCount` of a table is its own), and where it saw the workers.
 */
type ReportFields = {
  readonly record: JsonField<JsonObject>;
  readonly parameters: JsonField<readonly JsonObject[]>;
  readonly workers: JsonField<readonly { readonly rank: number; readonly clock: number }[]>;
};
const reportFields: ReportFields = {
  record: json(jsonObject),
  parameters: json(list(jsonObject)),
  workers: json(list(object({ rank: count, clock: count }))),
};
/** `keep`: how many checkpoints to keep; left out, all. */
type CommitFields = { readonly pending: Name; readonly manifest: JsonField<JsonObject>; readonly keep: Maybe<Count> };
const commitFields: CommitFields = { pending: name, manifest: json(jsonObject), keep: maybeNumber };
type CommittedFields = { readonly path: "string"; readonly warning: Maybe<Name> };
const committedFields: CommittedFields = { path: "string", warning: json(optional(text)) };
/** `pending` is left out if no directory was made yet. */
type AbandonFields = { readonly id: Name; readonly pending: Maybe<Name> };
const abandonFields: AbandonFields = { id: name, pending: maybeName };
/** The newest, when `step` is left out. */
type LoadFields = { readonly step: Maybe<Count> };
const loadFields: LoadFields = { step: maybeNumber };
/** `sums`: names of the records of kv values and pushData. `isActive`: this server has activated it before. */
type LoadedFields = {
  readonly step: Count;
  readonly clock: Count;
  readonly path: "string";
  readonly parameters: Names;
  readonly sums: Names;
  readonly isActive: JsonField<boolean>;
};
const loadedFields: LoadedFields = {
  step: number,
  clock: number,
  path: "string",
  parameters: names,
  sums: names,
  isActive: json(flag),
};
type StepFields = { readonly step: Count };
const stepFields: StepFields = { step: number };
type StageFields = { readonly name: Name; readonly directory: Name; readonly step: Maybe<Count> };
const stageFields: StageFields = { name, directory: name, step: maybeNumber };

export type Survey = FieldValues<SurveyFields>;
export type Cut = FieldValues<CutFields>;
export type Frozen = FieldValues<FrozenFields>;
export type Begin = FieldValues<BeginFields>;
export type Begun = FieldValues<BegunFields>;
export type Write = FieldValues<WriteFields>;
export type Report = FieldValues<ReportFields>;
export type Commit = FieldValues<CommitFields>;
export type Committed = FieldValues<CommittedFields>;
export type Abandon = FieldValues<AbandonFields>;
export type Loaded = FieldValues<LoadedFields>;
export type Step = FieldValues<StepFields>;
export type LoadStage = FieldValues<StageFields>;

/** The functions of one save, from the first to the last. */
export const checkpointSave: {
  readonly survey: Contract<Nothing, SurveyFields>;
  readonly cut: Contract<CutFields, FrozenFields>;
  readonly begin: Contract<BeginFields, BegunFields>;
  readonly write: Contract<WriteFields, ReportFields>;
  readonly commit: Contract<CommitFields, CommittedFields>;
  readonly abandon: Contract<AbandonFields, Nothing>;
} = {
  survey: serverUpdate("wb/checkpoint/survey", nothing, surveyFields),
  cut: serverUpdate("wb/checkpoint/cut", cutFields, frozenFields),
  begin: serverUpdate("wb/checkpoint/begin", beginFields, begunFields),
  write: serverUpdate("wb/checkpoint/write", writeFields, reportFields),
  commit: serverUpdate("wb/checkpoint/commit", commitFields, committedFields),
  abandon: serverUpdate("wb/checkpoint/abandon", abandonFields, nothing),
};

export const checkpointLoad: Contract<LoadFields, LoadedFields> = serverUpdate("wb/checkpoint/load", loadFields, loadedFields);
export const checkpointActivate: Contract<StepFields, Nothing> = serverUpdate("wb/checkpoint/activate", stepFields, nothing);
export const checkpointDiscard: Contract<Nothing, Nothing> = serverUpdate("wb/checkpoint/discard", nothing, nothing);

/** One parameter that was saved by itself (Hetu: ParamLoad). The newest, when `step` is left out. */
export const parameterStage: Contract<StageFields, StepFields> = serverUpdate("wb/parameter/load/stage", stageFields, stepFields);
export const parameterReplace: Contract<StepFields, Nothing> = serverUpdate("wb/parameter/load/replace", stepFields, nothing);
export const parameterUnstage: Contract<Nothing, Nothing> = serverUpdate("wb/parameter/load/unstage", nothing, nothing);
