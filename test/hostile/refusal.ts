// refusal — requests that must be answered with a failure, and the check that they are.

import assert from "node:assert/strict";
import type { ErrorCode } from "../../src/base/errors.ts";
import { failureOf, type RawClient } from "./raw-client.ts";
import type { HeaderFields } from "./raw-frame.ts";
import type { TargetCluster } from "./target-cluster.ts";

export type Refusal = {
  readonly name: string;
  readonly fields: HeaderFields;
  readonly payload?: Uint8Array;
  readonly code: ErrorCode;
  readonly says: RegExp;
};

/** Asks, and wants exactly this failure. */
export async function refused(cluster: TargetCluster, client: RawClient, { fields, payload, code, says }: Refusal): Promise<void> {
  const failure = failureOf(await cluster.world.run(client.ask(fields, payload)));
  assert.equal(failure.code, code, failure.message);
  assert.match(failure.message, says);
}
