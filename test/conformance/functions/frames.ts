// frames — what spec/functions.md says of functions whose frames have a layout of their own (src/contracts/kv.ts,
// collective.ts), and of those that applications serve (applications.ts).

import { collectivePart } from "../../../src/contracts/collective.ts";
import { kvPull, kvPush, kvPushPull, simpleRequest } from "../../../src/contracts/kv.ts";
import { rowsAsk, rowsDeal, rowsGive, rowsGradients } from "../../../src/contracts/row-exchange.ts";
import { type DocumentedFunction, documented, documentedExchange, documentedFrames, type FunctionFamily } from "./documented.ts";

const KV_ERRORS = [
  "UNKNOWN_APP",
  "BAD_REQUEST",
  "WRONG_EPOCH",
  "WRONG_OWNER",
  "KEYS_NOT_ASCENDING",
  "VALUE_LENGTH",
  "UNSUPPORTED",
  "ARENA_FULL",
  "QUEUE_FULL",
  "HANDLER_FAILED",
] as const;

/** Its vectors are made by hand: it is for an application. */
const simple: DocumentedFunction = {
  ...documented(simpleRequest, {
    about:
      "What an application of one node asks of the same application of another: a number (`command`), some bytes, and bytes back (protocol.md, §10).",
    request: { body: "the application's own" },
    response: { body: "the application's own" },
    errors: ["UNKNOWN_APP", "QUEUE_FULL", "HANDLER_FAILED"],
    example: { request: { body: new Uint8Array(0) }, response: { body: new Uint8Array(0) } },
  }),
  example: undefined,
  vectors: ["simple-request", "simple-reply"],
};

export const FRAMES: FunctionFamily = {
  title: "Keys and values, applications, operations of workers",
  about: "Named by their numbers; their frames have layouts of their own.",
  functions: [
    documentedFrames(kvPush, {
      about: "Values for keys of an application, which its handle applies; the default one adds them up.",
      errors: KV_ERRORS,
      vectors: [
        ...["kv-push", "kv-push-answer", "kv-push-lens", "kv-push-piece", "kv-push-run", "kv-push-run-answer", "kv-push-parts"],
        ...["kv-push-parts-answer", "kv-push-epoch", "kv-push-app-cut", "kv-push-float64"],
      ],
    }),
    documentedFrames(kvPull, {
      about: "The values of keys. A server may note which keys were asked for.",
      errors: KV_ERRORS,
      vectors: [
        ...["kv-pull", "kv-pull-answer", "kv-pull-lens", "kv-pull-lens-answer", "kv-pull-piece", "kv-pull-run", "kv-pull-run-answer"],
        ...["kv-pull-whole", "kv-pull-whole-answer"],
      ],
    }),
    documentedFrames(kvPushPull, {
      about: "A push of keys, and what they come to, with nothing in between.",
      errors: KV_ERRORS,
      vectors: ["kv-push-pull", "kv-push-pull-answer"],
    }),
    simple,
    documentedFrames(collectivePart, {
      about: "A part of an operation among workers.",
      errors: ["SPEC_MISMATCH", "NODE_DEAD", "CLOSED", "BUFFER_DETACHED"],
      vectors: ["collective-part", "collective-part-answer", "collective-broadcast", "collective-over"],
    }),
  ],
};

export const EXCHANGES: FunctionFamily = {
  title: "Messages of an exchange",
  about:
    "Workers that cache rows of a table do not call each other: every step of theirs is one EXCHANGE (protocol.md, M3), in which each sends every other one such message. All begin with u32 kind and three more u32, little-endian, which the layout names; then comes the rest. They are no functions: no frame names them.",
  functions: [
    documentedExchange(rowsAsk, {
      about: "The rows that the sender wants of the receiver.",
      layout: "1 if the sender knows what it wants, else 0 │ keyCount │ 0 │ u64 × keyCount, each once",
    }),
    documentedExchange(rowsGive, {
      about: "Those rows, or why there are none.",
      layout:
        "0 rows, 1 the sender asked for the wrong ones and asks again, 2 a failure │ rowCount, or bytes │ 0 │ f32 × width × rowCount as asked, or JSON `{code, message}`",
    }),
    documentedExchange(rowsGradients, {
      about: "What the sender's batch gives for rows of the receiver.",
      layout:
        "the sender's clock │ rowCount │ f32 scale │ u32: 1 if its batch gives gradients for any row, also of others, else 0 │ u32 × rowCount positions in what the sender asked for │ f32 × width × rowCount",
    }),
    documentedExchange(rowsDeal, {
      about: "What the workers agree on.",
      layout: "0 JSON, 2 a failure │ bytes │ 0 │ JSON",
    }),
  ],
};
