// Goal: where a logger is handed in, nothing else writes to standard error, also not for what fails. In processes of
// their own: the warnings of a process go there, too.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";

const LOGGER = `
const lines = [];
const at = (level) => (fields, message) => void lines.push([level, fields, message]);
const logger = { level: "debug", debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
`;

const FAILED_SAVE = `
import { EmbeddedCluster } from "./src/node/embedded-cluster.ts";
import * as training from "./src/node/training.ts";
${LOGGER}
const own = { debug() {}, info() {}, error() {}, warn: (fields, message) => void console.log("own", fields.weighbridge, message) };
for (const given of [{}, { logger: own }]) {
  // Its servers have no directory for checkpoints.
  await using cluster = await EmbeddedCluster.start({ servers: 2, logger });
  const workspace = new training.Workspace();
  const layers = [training.dense({ outputs: 2 })];
  const network = new training.Sequential(workspace, { inputShape: [2], sampleCountMax: 2, layers });
  training.setParamPs(network);
  const loss = new training.SoftmaxCrossEntropy(workspace, { classCount: 2, sampleCountMax: 2 });
  const model = new training.Model(network, { loss, optimizer: "sgd", ...given });
  const dataset = new training.ArrayDataset({ labels: [0, 1], values: { shape: [2], floats: new Float32Array(4) } });
  const callbacks = [new training.ModelCheckpoint({ everySteps: 1, directory: process.argv.at(-1) })];
  await model.train(2, dataset, { batchSize: 2, session: cluster.session, callbacks }).catch(({ code }) => console.log(code));
  await model.close();
}
for (const [level, , message] of lines) if (level === "warn") console.log("cluster's", message);
`;

const FAILED_CONNECT = `
import { connect } from "./src/node/connect.ts";
${LOGGER}
const faulty = { faults: { dropPercent: 1 }, resendTimeoutMs: 0 }; // is warned of
const outcomes = [
  await connect("weighbridge://127.0.0.1:1", { logger, startTimeoutMs: 200 }).catch(({ code }) => code),
  await connect("weighbridge://127.0.0.1:1", { role: "worker", logger, ...faulty, startTimeoutMs: 200 }).catch(({ code }) => code),
  await connect({ role: "worker", serverCount: 1, workerCount: 1, schedulerPort: 1, logger, ...faulty, timeoutMs: 50 }).catch(({ code }) => code),
];
console.log(outcomes.join(), lines.filter(([level]) => level === "warn").length > 0);
`;

function outputOf(script: string): string {
  const options = { cwd: `${import.meta.dirname}/../..`, encoding: "utf8", timeout: 60_000 } as const;
  const { stdout, stderr, status } = spawnSync(process.execPath, ["--input-type=module", "--eval", script], options);
  assert.equal(stderr, "");
  assert.equal(status, 0);
  return stdout;
}

test("a cluster inside the process with a logger, whose model cannot be saved, writes nothing to standard error", () => {
  const lines = outputOf(FAILED_SAVE).trim().split("\n");
  const told = (who: string): string[] => lines.filter((line) => line.startsWith(who) && line.includes("no checkpoint was saved"));
  assert.ok(told("cluster's").length > 0, String(lines));
  assert.ok(told("own worker 0").length > 0, String(lines));
  assert.equal(told("cluster's").length, told("own worker 0").length, "the logger of a model takes the place of its session's");
});

test("a connect() with a logger that fails writes nothing to standard error", () => {
  assert.equal(outputOf(FAILED_CONNECT), "SCHEDULER_UNREACHABLE,SCHEDULER_UNREACHABLE,DEADLINE true\n");
});
