// common-words — what the same fields mean in many functions, and the errors that functions of one kind share.

import type { ErrorCode } from "../../../src/base/errors.ts";

export const PARAMETER = "the number of the parameter (protocol.md, C35)";
/** Of examples: one that every node takes. */
export const SPEC =
  '{"kind":"tensor","name":"w","shape":[10,4],"initializer":{"type":"constant","value":0},"optimizer":{"type":"sum","clipValue":null,"clipNorm":null,"nonFinite":"refuse"},"updates":"async","reduce":"sum"}';
export const BLOCK = "the index of the block, from 0 (protocol.md, B2)";
export const CLOCK = "the clock of the worker";
export const PUSH_NUMBER =
  "the number of the push among those of this worker to the parameter (consistency.md, N1); all requests of one push have the same";
export const SCALE = "multiplies every gradient, before anything else; finite, and 1 for the optimizers assign, min and max";
export const KEYS = "each once, in any order";
export const KEY_GRADIENTS = "the rows of gradients one after the other, in the order of the keys";
export const KEY_VALUES = "the rows one after the other, in the order of the keys";

/** The parameter is not there, is of the other kind, or its server is restoring a checkpoint (QUEUE_FULL). */
export const FIND_ERRORS: readonly ErrorCode[] = ["UNKNOWN_PARAMETER", "UNSUPPORTED", "QUEUE_FULL"];

/** Of a worker that is no member of the clock set. */
export const MEMBER_ERRORS: readonly ErrorCode[] = ["NOT_JOINED", "NODE_DEAD", "FENCED"];

export const PUSH_ERRORS: readonly ErrorCode[] = [
  ...FIND_ERRORS,
  ...MEMBER_ERRORS,
  "STALE_UPDATE",
  "OUT_OF_RANGE",
  "VALUE_LENGTH",
  "NOT_FINITE",
  "ARENA_FULL",
];

/** A read that has to wait ends with an answer or one of these. */
export const WAIT_ERRORS: readonly ErrorCode[] = [...MEMBER_ERRORS, "DEADLINE", "QUEUE_FULL"];

export const PULL_ERRORS: readonly ErrorCode[] = [...FIND_ERRORS, ...WAIT_ERRORS, "OUT_OF_RANGE", "ARENA_FULL"];

export const PUSH_PULL_ERRORS: readonly ErrorCode[] = [...PUSH_ERRORS, ...WAIT_ERRORS];

/** Of payloads of values that no encoder makes. */
export const CODED_ERRORS: readonly ErrorCode[] = ["BAD_REQUEST"];

/** The same, with a key list. */
export const CODED_KEY_ERRORS: readonly ErrorCode[] = ["BAD_REQUEST", "KEYS_NOT_ASCENDING", "UNKNOWN_KEY_LIST"];

/** Files of checkpoints that are not there, not ours, not whole or not readable. */
export const FILE_ERRORS: readonly ErrorCode[] = ["CHECKPOINT_MISSING", "CHECKPOINT_TORN", "CHECKPOINT_FOREIGN", "CHECKPOINT_IO"];
