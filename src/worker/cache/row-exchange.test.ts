// row-exchange — Goal: what is cut again because the placement changed, once or several times, is told as what it was:
// each push of the list once, each question with all of its rows.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Arena } from "../../kernel/arena.ts";
import { VERSION_NONE } from "../../kernel/row-kernels.ts";
import type { FunctionClient } from "../function-client.ts";
import type { ParameterHandle } from "../parameter-handle.ts";
import type { AnyRequest, Recut } from "../router/function-request.ts";
import { type RowPlan, RowPlanner } from "../router/row-plan.ts";
import { type PushList, RowExchange, type SyncList } from "./row-exchange.ts";

const SERVERS = [0, 1, 2];

type Fields = { readonly pushKeys?: BigUint64Array; readonly keys?: BigUint64Array; readonly gradients?: Float32Array };

/** Servers that send every request back to be cut again, so many times, before they answer. Row k of one float is k. */
class MovingServers {
  readonly servers: readonly number[] = SERVERS;
  /** Keys with their gradients, as they were pushed in the end. */
  readonly pushed: [bigint, number][] = [];
  readonly #times: number;

  constructor(times: number) {
    this.#times = times;
  }

  async callMixed(requests: readonly AnyRequest[]): Promise<void> {
    for (const request of requests) this.#deal(request, this.#times);
  }

  #deal({ fn, options }: AnyRequest, times: number): void {
    if (times > 0) {
      const { requests, answered, release } = (options.cutAgain as () => Recut)();
      for (const request of requests) this.#deal(request, times - 1);
      answered?.();
      release();
      return;
    }
    const { pushKeys = new BigUint64Array(0), gradients, keys = new BigUint64Array(0) } = options.request as unknown as Fields;
    for (const [i, key] of pushKeys.entries()) this.pushed.push([key, gradients?.[i] as number]);
    const rows = Float32Array.from(keys, Number);
    const none = new Uint32Array(0);
    options.answered?.({ rate: fn.name.length, generation: 1, indexes: none, versions: none, rows });
  }
}

function listsOf(plan: RowPlan): { readonly push: PushList; readonly sync: SyncList } {
  const keys = new BigUint64Array(plan.rowCount);
  for (const part of plan.parts) keys.set(part.keys, part.from);
  const spans = plan.parts.map((part) => ({ server: part.server, epoch: 1, from: part.from, to: part.from + part.keys.length }));
  const updates = Uint32Array.from(keys, (_, i) => i + 1);
  return {
    push: { parts: spans, keys, gradients: Float32Array.from(keys, (key) => Number(key) / 2), updates },
    sync: { parts: spans.map((span) => ({ ...span, keptFrom: span.to, plainFrom: span.to })), keys, versions: updates },
  };
}

for (const times of [0, 1, 2, 3]) {
  test(`requests that are cut again ${times} times are told as the spans of the lists, each once`, async () => {
    const planner = RowPlanner.among(new Arena({ bytesMax: 2 ** 22 }), SERVERS, 5);
    const plan = planner.plan(BigUint64Array.from({ length: 40 }, (_, i) => BigInt(i) * 977n));
    const { push, sync } = listsOf(plan);
    const servers = new MovingServers(times);
    const handle = { name: "e", parameter: 3, numberPush: () => 1 } as unknown as ParameterHandle;
    const exchange = new RowExchange({ functions: servers as unknown as FunctionClient, planner, handle, width: 1, pullBound: 0 });
    const { acknowledged, answers, failure, lost, unsure } = await exchange.run(push, sync, { clock: 1 });
    assert.deepEqual([failure, lost, unsure], [undefined, [], []]);
    const inOrder = <T extends { readonly from: number }>(spans: readonly T[]): T[] =>
      [...spans].sort((one, other) => one.from - other.from);
    assert.deepEqual(inOrder(acknowledged.map(({ pushed }) => pushed)), inOrder(push.parts));
    assert.ok(acknowledged.every(({ rate }) => rate > 0));
    assert.deepEqual(
      new Map(servers.pushed),
      new Map(Array.from(push.keys, (key) => [key, Number(key) / 2])),
      "every gradient once, with its key",
    );
    assert.equal(servers.pushed.length, 40);
    assert.deepEqual(inOrder(answers.map(({ wanted }) => wanted)), inOrder(sync.parts));
    if (times === 0) return;
    for (const { wanted, fresh, isWhole } of answers) {
      assert.equal(isWhole, false);
      assert.deepEqual(
        fresh.rows,
        Float32Array.from(sync.keys.slice(wanted.from, wanted.to), Number),
        "all rows, in the order of the question",
      );
      assert.deepEqual(fresh.versions, new Uint32Array(fresh.indexes.length).fill(VERSION_NONE));
    }
  });
}
