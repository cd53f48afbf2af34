// Goal: the layer of the guide is written with what the door exports, has the gradients that differences say, and is
// trained by servers as in one process.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { EmbeddedCluster } from "../../src/node/embedded-cluster.ts";
import {
  ArrayDataset,
  createParameter,
  dense,
  type LayerPlan,
  Model,
  Sequential,
  SquaredError,
  setParamPs,
  Workspace,
} from "../../src/node/training.ts";
import { assertGradients } from "../../src/testing/numeric-gradients.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";

const ROOT = join(import.meta.dirname, "../..");
const directory = join(ROOT, ".weighbridge", `own-layer-${process.pid}`); // within the package: it imports it by name

async function guideLayer(): Promise<(name?: string) => LayerPlan> {
  const script = /```ts\n(\/\/ gain\.ts\n.*?)```/s.exec(readFileSync(join(ROOT, "docs/guides/train-your-own-model.md"), "utf8"))?.[1];
  assert.ok(script !== undefined, "the guide has gain.ts");
  mkdirSync(directory, { recursive: true });
  after(() => rmSync(directory, { recursive: true, force: true }));
  const path = join(directory, "gain.ts");
  writeFileSync(path, script);
  const { gain } = (await import(pathToFileURL(path).href)) as { readonly gain: (name?: string) => LayerPlan };
  return gain;
}

const [INPUTS, BATCH, SAMPLES] = [3, 8, 64];
const floats = Float32Array.from({ length: SAMPLES * INPUTS }, (_, i) => Math.sin(7 * i));
const labels = Array.from({ length: SAMPLES }, (_, i) => 2 * floats[i * INPUTS]! - floats[i * INPUTS + 1]!);
const dataset = new ArrayDataset({ labels, values: { shape: [INPUTS], floats } });

test("a layer of one's own, as the guide has it, is differentiated and trained as built-in ones are", async () => {
  const gain = await guideLayer();
  assertGradients({ inputShape: [INPUTS], sampleCount: 4, layers: [dense({ outputs: 5 }), gain(), dense({ outputs: 2 })] });
  const built = (): { readonly network: Sequential; readonly model: Model } => {
    const workspace = new Workspace();
    const layers = [gain("first"), dense({ outputs: 4, activation: "relu" }), gain(), dense({ outputs: 1 })];
    const network = new Sequential(workspace, { inputShape: [INPUTS], sampleCountMax: BATCH, layers });
    const loss = new SquaredError(workspace, { sampleCountMax: BATCH });
    return { network, model: new Model(network, { loss, optimizer: { type: "sgd", learningRate: 0.05 } }) };
  };
  const alone = built();
  const before = (await alone.model.eval(dataset)).loss!;
  await alone.model.train(5, dataset, { batchSize: BATCH });
  assert.ok((await alone.model.eval(dataset)).loss! < before / 2);
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const served = built();
  setParamPs(served.network);
  await served.model.train(5, dataset, { batchSize: BATCH, session: cluster.session });
  assert.deepEqual(await served.model.predict(dataset), await alone.model.predict(dataset));
});

test("createParameter refuses a name, a shape and an initializer that cannot be", () => {
  const workspace = new Workspace();
  const good = { name: "p", shape: [2], initializer: { type: "constant", value: 0 } } as const;
  for (const bad of [{ name: "" }, { shape: [] }, { shape: [0] }, { shape: 3 }, { initializer: { type: "no" } }])
    assert.throws(() => createParameter(workspace, { ...good, ...bad } as never), throwsCode("BAD_ARGUMENT"));
  assert.equal(createParameter(workspace, good).values.length, 2);
});
