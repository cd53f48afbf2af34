// kv — keys with values of an application (ps-lite: Push, Pull, PushPull). The owner of a raw key's range serves it:
// ranges of the placement's servers, not mixed keys. The frames have a layout of their own (wire/kv-message.ts): a push
// of one key is smaller than the fields of a schema would be. Beside them, what applications send each other: a number
// and some bytes, and bytes back (ps-lite: SimpleApp).

import { FunctionId } from "../wire/function-id.ts";
import { type Contract, contract, type FrameContract } from "./contract.ts";

const layout = "spec/protocol.md, 9. Keys and values";

/** Values for keys, which the application's handle applies; the default one adds them up. */
export const kvPush: FrameContract<typeof FunctionId.KV_PUSH> = {
  id: FunctionId.KV_PUSH,
  name: "wb/kv/push",
  target: "part",
  effect: "update",
  layout,
};

/** The values of keys. The server may remember which keys were asked for, and what was gathered for them. */
export const kvPull: FrameContract<typeof FunctionId.KV_PULL> = {
  id: FunctionId.KV_PULL,
  name: "wb/kv/pull",
  target: "part",
  effect: "recordingRead",
  layout,
};

/** Values for keys, and what they come to, with nothing in between. */
export const kvPushPull: FrameContract<typeof FunctionId.KV_PUSH_PULL> = {
  id: FunctionId.KV_PUSH_PULL,
  name: "wb/kv/push-pull",
  target: "part",
  effect: "update",
  layout,
};

export const KV_CONTRACTS: readonly FrameContract[] = [kvPush, kvPull, kvPushPull];

const bytes = { body: "u8[]" } as const;

/** Served by every node, for every node. The frame names the application, its customer and the number. */
export const simpleRequest: Contract<typeof bytes, typeof bytes> = contract({
  id: FunctionId.SIMPLE,
  name: "wb/app/request",
  target: "node",
  effect: "update",
  request: bytes,
  response: bytes,
});
