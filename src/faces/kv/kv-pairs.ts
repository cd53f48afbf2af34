// kv-pairs — keys with their values, as handles get and give them (ps-lite: KVPairs, KVMeta).

import type { Values } from "../../wire/kv-message.ts";

export type KVPairs<V extends Values = Values> = {
  /** Strictly ascending. */
  readonly keys: BigUint64Array;
  /** One key's values after the other's; empty in a pull request. */
  readonly vals: V;
  /** Values per key; left out when every key has vals.length / keys.length of them. */
  readonly lens?: Int32Array | undefined;
};

/** What a request says besides its keys and values. Keep it to answer later. */
export type KVMeta = {
  readonly cmd: number;
  readonly push: boolean;
  readonly pull: boolean;
  /** Node id of the worker. */
  readonly sender: number;
  readonly timestamp: number;
  readonly customerId: number;
  /** Node id of the worker, as a person reads it. */
  readonly senderName: string;
};
