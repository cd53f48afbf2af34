// checkpoints — what spec/functions.md says of src/contracts/checkpoints.ts and src/contracts/tools.ts.

import * as checkpoints from "../../../src/contracts/checkpoints.ts";
import { relayCall, relayGone, toolHere } from "../../../src/contracts/tools.ts";
import { FILE_ERRORS } from "./common-words.ts";
import { type DocumentedFunction, documented, documentedJson, type FunctionFamily } from "./documented.ts";

const ID = "names the save on this server; the caller's own choice";
const STEP = "of the checkpoint";
const PENDING = "the directory, as `begin` answered it";
const NAMES = "names of parameters";

/** A checkpoint of the job, and saving one parameter, are the same functions under two names. */
function saveFunctions({ survey, cut, begin, write, commit, abandon }: typeof checkpoints.checkpointSave): DocumentedFunction[] {
  return [
    documented(survey, {
      about: "How far the clocks are on this server, and which parameters there are.",
      request: {},
      response: {
        clockMin: "the clock of the slowest worker on this server",
        names: NAMES,
        gone: "those that were cleared or replaced since the caller's last cut, of that; left out without one",
        waits: 'what a cut of the caller waits for, in words: a clock, and the slowest workers with theirs; `""` for nothing',
      },
      errors: [],
      example: { request: {}, response: { clockMin: 12, names: ["w"], gone: undefined, waits: "" } },
    }),
    documented(cut, {
      about:
        "Answered when this server's part of the cut at `clock` is frozen (consistency.md, D1). When the epochs of two servers differ, or others were asked than the servers of that epoch, parts have moved between their cuts: the checkpoint is abandoned, and taken again.",
      request: { id: ID, clock: "of the cut", isWhole: "whether sums (checkpoint.md) are in it, too; not if one parameter is saved" },
      response: {
        names: "the parameters that are in it",
        run: "the run of the job",
        epoch: "of the placement at the cut",
        servers: "ranks of its servers",
      },
      errors: ["QUEUE_FULL", "BAD_ARGUMENT", "UNSUPPORTED", "ARENA_FULL", "ABORTED", "DEADLINE", "NODE_DEAD", "CLOSED", "WRONG_EPOCH"],
      example: {
        request: { id: "2026-01-02@12", clock: 12, isWhole: true },
        response: { names: ["w"], run: "5f", epoch: 3, servers: Uint32Array.of(0, 1) },
      },
    }),
    documented(begin, {
      about: "Of the server of the lowest rank: makes the directory for the checkpoint.",
      request: {
        step: "the number of the checkpoint; left out, the next one",
        stepMin: "the least that the next one may be",
        directory: "below the servers' checkpoint directory; left out, among those of the job",
      },
      response: { pending: "the directory, until the checkpoint is complete", step: STEP },
      errors: ["QUEUE_FULL", "UNSUPPORTED", "BAD_ARGUMENT", "ABORTED", "CHECKPOINT_FOREIGN", "CHECKPOINT_IO"],
      example: { request: { step: undefined, stepMin: 12, directory: undefined }, response: { pending: "step-12.pending", step: 12 } },
    }),
    documented(write, {
      about: "Answered when this server's shard is on the disk.",
      request: { id: ID, pending: PENDING, step: STEP, job: "the name of the job", parameters: "the names of those that are to be in it" },
      response: {
        record: "of this server's shard, as the manifest keeps it (checkpoint.md)",
        parameters: "their records, as this server has them; `rowCount` of a table is its own",
        workers: "where this server saw them: a list of `{rank, clock}`",
      },
      errors: [
        "BAD_REQUEST",
        "QUEUE_FULL",
        "UNSUPPORTED",
        "ARENA_FULL",
        "ABORTED",
        "DEADLINE",
        "NODE_DEAD",
        "CLOSED",
        "UNKNOWN_PARAMETER",
        "CHECKPOINT_IO",
      ],
      example: {
        request: { id: "2026-01-02@12", pending: "step-12.pending", step: 12, job: "mnist", parameters: ["w"] },
        response: { record: { server: 0 }, parameters: [{ name: "w" }], workers: [{ rank: 0, clock: 12 }] },
      },
    }),
    documented(commit, {
      about: "Of the same server: makes a checkpoint of the shards.",
      request: { pending: PENDING, manifest: "as it is to be written (checkpoint.md)", keep: "how many checkpoints stay; left out, all" },
      response: { path: "where it is", warning: "what went wrong beside; left out if nothing did" },
      errors: ["BAD_REQUEST", "UNSUPPORTED", "CHECKPOINT_FOREIGN", "CHECKPOINT_IO"],
      example: {
        request: { pending: "step-12.pending", manifest: { step: 12 }, keep: 3 },
        response: { path: "/checkpoints/step-12", warning: undefined },
      },
    }),
    documented(abandon, {
      about: "Gives up the save, and its files.",
      request: { id: ID, pending: `${PENDING}; left out by who has not heard of it` },
      response: {},
      errors: [],
      example: { request: { id: "2026-01-02@12", pending: undefined }, response: {} },
    }),
  ];
}

export const CHECKPOINTS: FunctionFamily = {
  title: "Checkpoints",
  about:
    "One worker, or the command line through `wb/relay/call`, takes or restores a checkpoint: survey (who has no clock of its own), cut on every server, begin on the server of the lowest rank, write on every server, commit on the first one again; abandon on every server when it fails. To save one parameter is to take a checkpoint of it alone. Restoring: load on every server, then activate on every server; discard when it fails. One parameter: stage, replace, unstage.",
  functions: [
    ...saveFunctions(checkpoints.checkpointSave),
    documented(checkpoints.checkpointLoad, {
      about: "Answered when this server holds what it owns of a checkpoint; nobody sees it yet. There must be no parameters.",
      request: { step: "left out: the newest" },
      response: {
        step: STEP,
        clock: "of the cut",
        path: "where it is",
        parameters: NAMES,
        sums: "names of the tables of sums (checkpoint.md)",
        isActive: "whether this server has activated it before: nothing was loaded now",
      },
      errors: [...FILE_ERRORS, "BAD_ARGUMENT", "UNSUPPORTED", "ARENA_FULL", "QUEUE_FULL", "CATALOGUE_FULL"],
      example: {
        request: { step: undefined },
        response: { step: 12, clock: 12, path: "/checkpoints/step-12", parameters: ["w"], sums: ["wb/sums/kv/0/F32/1"], isActive: false },
      },
    }),
    documented(checkpoints.checkpointActivate, {
      about: "Everybody sees what was loaded.",
      request: { step: STEP },
      response: {},
      errors: ["BAD_REQUEST", "BAD_ARGUMENT", "SPEC_MISMATCH", "ABORTED", "CATALOGUE_FULL"],
      example: { request: { step: 7 }, response: {} },
    }),
    documented(checkpoints.checkpointDiscard, {
      about: "Forgets what was loaded, unless another worker still wants it.",
      request: {},
      response: {},
      errors: [],
      example: { request: {}, response: {} },
    }),
    documented(checkpoints.parameterStage, {
      about: "Answered when this server holds what it owns of one saved parameter, beside the one there is.",
      request: { name: "of the parameter", directory: "below the servers' checkpoint directory", step: "left out: the newest" },
      response: { step: STEP },
      errors: [...FILE_ERRORS, "UNKNOWN_PARAMETER", "UNSUPPORTED", "QUEUE_FULL", "SPEC_MISMATCH", "ABORTED", "ARENA_FULL", "BAD_ARGUMENT"],
      example: { request: { name: "w", directory: "kept", step: undefined }, response: { step: 3 } },
    }),
    documented(checkpoints.parameterReplace, {
      about: "What was staged replaces the parameter that is there.",
      request: { step: STEP },
      response: {},
      errors: ["BAD_REQUEST", "UNKNOWN_PARAMETER", "SPEC_MISMATCH"],
      example: { request: { step: 3 }, response: {} },
    }),
    documented(checkpoints.parameterUnstage, {
      about: "Forgets what was staged.",
      request: {},
      response: {},
      errors: [],
      example: { request: {}, response: {} },
    }),
  ],
};

export const RELAY: FunctionFamily = {
  title: "Calls through the scheduler",
  about: "For programs that are no nodes: they know the scheduler alone. Functions of checkpoints can be called so (protocol.md, §10a).",
  functions: [
    documentedJson(toolHere, {
      about:
        "The caller is there, as a tool, until its link ends: the `guests` of a STATUS list it. To be repeated every `heartbeatIntervalMs`: one that is silent for the heartbeat timeout is cut off, and what it began is given up.",
      request: { label: "where it runs: host and process", command: "what it does" },
      response: { heartbeatIntervalMs: "0: it need not be repeated" },
      errors: ["BAD_REQUEST"],
      example: { request: { label: "laptop:4711", command: "checkpoint save" }, response: { heartbeatIntervalMs: 1000 } },
    }),
    documented(relayCall, {
      about: "The scheduler calls a function of a server, and answers what that answers. Servers serve it too, for the scheduler alone.",
      request: {
        server: "the rank of the server",
        caller: 'a name for the caller, which the scheduler fills in; "" to the scheduler',
        name: "of the function",
        signature: "hash of the function's signature",
        request: "of the function, as its schema encodes it",
      },
      response: { response: "of the function, as its schema encodes it" },
      errors: ["NO_ROUTE", "NODE_DEAD", "UNKNOWN_FUNCTION", "SPEC_MISMATCH"],
      example: {
        request: {
          server: 0,
          caller: "",
          name: "wb/checkpoint/survey",
          signature: checkpoints.checkpointSave.survey.signatureHash,
          request: new Uint8Array(0),
        },
        response: { response: Uint8Array.of(1, 2, 3) },
      },
    }),
    documented(relayGone, {
      about: "From the scheduler: the caller of this name is gone, and the server gives up what it has not finished.",
      request: { caller: "the name that `wb/relay/call` told" },
      response: {},
      errors: ["BAD_REQUEST"],
      example: { request: { caller: "-3" }, response: {} },
    }),
  ],
};
