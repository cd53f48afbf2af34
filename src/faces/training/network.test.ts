// Goal: what setParamPs marks is just what was named: a network, a layer of it, a parameter; what is nothing of that is
// refused. And of what lives on servers, the first layer's is the most urgent.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Session } from "../../api/session.ts";
import { isWeighbridgeError } from "../../base/errors.ts";
import { dense } from "../../nn/layers/dense.ts";
import { Workspace } from "../../nn/workspace.ts";
import { parametersOf, setParamPs } from "./network.ts";
import { EmbeddingNetwork } from "./networks/embedding-network.ts";
import { OpenNetwork } from "./open-network.ts";

function built({ sparse = true }: { readonly sparse?: boolean } = {}): EmbeddingNetwork {
  const lookup = { name: "table", vocabSize: 5, dim: 2, idsPerSample: 1, sampleCountMax: 2, sparse };
  return new EmbeddingNetwork(new Workspace(), {
    lookup,
    layers: [dense({ name: "hidden", outputs: 3 }), dense({ name: "head", outputs: 2 })],
  });
}

/** The names of what lives on servers. */
function marked(network: EmbeddingNetwork): string[] {
  const names = parametersOf(network).flatMap(({ name, serverTarget }) => (serverTarget === undefined ? [] : [name]));
  return network.lookup.serverTarget === undefined ? names : [network.lookup.tableName, ...names];
}

test("marks all of a network, one layer, one parameter, and a table with and without sparse rows", () => {
  const [whole, layer, parameter, table, dense] = [built(), built(), built(), built(), built({ sparse: false })];
  assert.deepEqual(marked(whole), []);
  setParamPs(whole);
  assert.deepEqual(marked(whole), ["table.weight", "hidden.weight", "hidden.bias", "head.weight", "head.bias"]);
  setParamPs(layer.stages[1]!);
  assert.deepEqual(marked(layer), ["hidden.weight", "hidden.bias"]);
  setParamPs(parametersOf(parameter).find(({ name }) => name === "head.bias")!, { initInServer: true });
  assert.deepEqual(marked(parameter), ["head.bias"]);
  assert.deepEqual(parametersOf(parameter).at(-1)!.serverTarget, { initInServer: true });
  setParamPs(table.lookup);
  assert.deepEqual(marked(table), ["table.weight"]);
  setParamPs(dense.lookup);
  assert.deepEqual(marked(dense), ["table.weight"]);
});

test("refuses what is no network, layer or parameter, and an initInServer that is neither true nor false", () => {
  for (const target of [undefined, null, 3, "hidden", {}, []]) {
    assert.throws(
      () => setParamPs(target as unknown as EmbeddingNetwork),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /takes a network, a layer or a parameter/.test(error.message),
    );
  }
  const network = built();
  assert.throws(
    () => setParamPs(network, { initInServer: "yes" as unknown as boolean }),
    (error) => isWeighbridgeError(error, "BAD_ARGUMENT"),
  );
  assert.deepEqual(marked(network), []);
});

test("the first layer's values are asked for with the highest priority, which the next forward needs first", async () => {
  const network = built({ sparse: false });
  setParamPs(network);
  const priorities = new Map<string, number>();
  const tensor = (name: string): Promise<object> =>
    Promise.resolve({
      link: {}, // its calls are its own, one by one
      control: { checkCall: () => {} },
      start: async () => {},
      pull: async ({ priority }: { readonly priority: number }) => void priorities.set(name, priority),
    });
  const session = { workerCount: 1, tensor } as unknown as Session;
  const options = { network, session, optimizerOf: () => ({ type: "sgd" }) as const, seed: 1, consistency: "bsp" } as const;
  await OpenNetwork.open(options, { wait: {}, patienceMs: 0 });
  const [table, hidden, head] = ["table.weight", "hidden.weight", "head.bias"].map((name) => priorities.get(name)!);
  assert.ok(table! > hidden! && hidden! > head!, JSON.stringify([...priorities]));
});

test("takes init_in_server as MindSpore spells it, and refuses other options with the nearest known name", () => {
  const network = built();
  setParamPs(network, { init_in_server: true });
  assert.deepEqual(network.lookup.serverTarget, { initInServer: true });
  for (const [options, message] of [
    [{ initinserver: true }, /setParamPs have no "initinserver".*did you mean initInServer\?/],
    [{ init_on_server: true }, /have no "initOnServer".*did you mean initInServer\?/],
    [{ initInServer: true, init_in_server: false }, /both initInServer and init_in_server/],
    [{ init_in_server: 1 }, /initInServer is true or false, not 1/],
    ["yes", /setParamPs are an object/],
  ] as const) {
    assert.throws(
      () => setParamPs(network, options as object),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && message.test(error.message),
    );
  }
});
