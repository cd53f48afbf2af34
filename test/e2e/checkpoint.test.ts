// checkpoint — Goal: checkpoints are looked at, checked and exported by the command line; other programs read them; a
// real disk that takes no more is told as such.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync, truncateSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { saveSample, temporaryFolder } from "../support/checkpoint-stage.ts";
import { Cluster } from "./cluster.ts";
import { Processes, ROOT, until } from "./processes.ts";

test("inspect, verify and export tell what there is", async () => {
  using folder = temporaryFolder();
  await using processes = new Processes();
  for (const step of [120, 123]) await saveSample({ root: folder.path, step });
  const run = async (...args: readonly string[]): Promise<string> => {
    const running = processes.weighbridge(["checkpoint", ...args]);
    await running.succeeds();
    return running.stdout;
  };
  const shown = await run("inspect", folder.path);
  assert.match(shown, /step-000123: step 123, clock 40, of job job-a\nwritten .* by 2 servers/);
  assert.match(shown, /^users +embedding +keys × 3 +32 +f32 +896 B +rowwise-adagrad/m);
  const manifest = JSON.parse(await run("inspect", folder.path, "--step", "120", "--json")) as { step: number };
  assert.equal(manifest.step, 120);
  assert.match(await run("verify", folder.path, "--all"), /step-000120 is whole: clock 40, 2 files.*\n.*step-000123 is whole/);
  const file = join(folder.path, "model.safetensors");
  assert.match(await run("export", folder.path, file), /model\.safetensors: 3 tensors, .* from .*step-000123/);
});

test("verify ends with 1 and says which file is wrong, why, and what is before it", async () => {
  using folder = temporaryFolder();
  await using processes = new Processes();
  await saveSample({ root: folder.path, step: 1 });
  const { path } = await saveSample({ root: folder.path, step: 2 });
  truncateSync(join(path, "server-001-000.safetensors"), 2000);
  await processes
    .weighbridge(["checkpoint", "verify", folder.path])
    .fails(
      /CHECKPOINT_TORN: .*server-001-000\.safetensors says its header has .*\n.*step-000002 cannot be used; the one before it is .*step-000001/,
    );
  await processes.weighbridge(["checkpoint", "verify", folder.path, "--step", "1"]).succeeds();
  await processes
    .weighbridge(["checkpoint", "inspect", folder.path])
    .fails(/CHECKPOINT_TORN: .*; the checkpoint before it is .*step-000001/);
  await processes.weighbridge(["checkpoint", "inspect", join(folder.path, "nowhere")]).fails(/CHECKPOINT_MISSING: cannot read .*nowhere/);
});

test("save takes a checkpoint of a running cluster, restore brings it to one of another size", async () => {
  using folder = temporaryFolder();
  let clock = 0;
  {
    await using cluster = await Cluster.create({ servers: 2, workers: 1, flags: ["--checkpoint-dir", folder.path] });
    const nodes = [cluster.scheduler(), cluster.server(0), cluster.server(1)];
    assert.equal(nodes.length, 3);
    await cluster.worker(0, "trainer").says(/^clock 40$/);
    const save = cluster.weighbridge(["checkpoint", "save", "--scheduler-port", cluster.port, "--job", "e2e", "--keep", 1]);
    await save.succeeds();
    const [, told] = /step-\d+: clock (\d+)$/m.exec(save.stdout) ?? [];
    clock = Number(told);
    assert.ok(clock >= 40, save.transcript);
    await cluster.weighbridge(["checkpoint", "verify", folder.path]).succeeds();
    await cluster
      .weighbridge(["checkpoint", "restore", "--scheduler-port", cluster.port])
      .fails(/BAD_ARGUMENT: .*restored before there are parameters; server 0 has "w"/);
  }
  await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: ["--checkpoint-dir", folder.path] });
  const nodes = [cluster.scheduler(), cluster.server(0)];
  assert.equal(nodes.length, 2);
  const worker = cluster.worker(0, "trainer", "--wait");
  await worker.says(/^connected$/);
  const restore = cluster.weighbridge(["checkpoint", "restore", "--scheduler-port", cluster.port]);
  await restore.succeeds();
  assert.match(restore.stdout, new RegExp(`: clock ${clock}, 1 parameter$`, "m"));
  await worker.says(new RegExp(`^restored ${clock} at clock ${clock}$`));
  await cluster
    .weighbridge(["checkpoint", "restore", "--scheduler-port", cluster.port])
    .fails(/BAD_ARGUMENT: the cluster was restored from .*step-\d+ before, and nothing was loaded again: .*--restore .*step-\d+/);
});

test("what a kv job had pushed when it was saved is there again after all of it was killed, on another number of servers", async () => {
  using folder = temporaryFolder();
  let pushedBefore = 0;
  {
    await using cluster = await Cluster.create({ servers: 2, workers: 1, flags: ["--checkpoint-dir", folder.path, "--job", "kept"] });
    const nodes = [cluster.scheduler(), cluster.server(0), cluster.server(1), cluster.worker(0, "pusher")];
    const [, told] = (await nodes[3]?.says(/^pushed (\d+)$/, 3)) ?? [];
    pushedBefore = Number(told);
    await cluster.weighbridge(["checkpoint", "save", "--scheduler-port", cluster.port]).succeeds();
    for (const node of nodes) await node.kill();
  }
  const inspect = new Processes();
  await using _ = inspect;
  const shown = inspect.weighbridge(["checkpoint", "inspect", folder.path]);
  await shown.succeeds();
  assert.match(shown.stdout, /^\S+: step \d+, clock \d+, of job kept$/m);
  assert.match(shown.stdout, /^wb\/sums\/kv\/0\/F32\/1 +sums +keys × 1 +64 +f32 +768 B +sum +asp +keys, values$/m);
  await inspect.weighbridge(["checkpoint", "verify", folder.path]).succeeds();
  const flags = ["--checkpoint-dir", folder.path];
  await using cluster = await Cluster.create({ servers: 3, workers: 1, flags });
  const servers = [0, 1, 2].map((rank) => cluster.weighbridge(["server", ...cluster.flags, "--rank", rank, "--restore", folder.path]));
  const nodes = [cluster.scheduler(), ...servers, cluster.worker(0, "kv-reader")];
  const [, least, greatest] = (await nodes.at(-1)?.says(/^holds (\d+) to (\d+)$/)) ?? [];
  assert.ok(pushedBefore > 0 && Number(least) >= pushedBefore, `${least} pushes, and ${pushedBefore} before it was saved`);
  assert.ok(Number(greatest) - Number(least) <= 1, "each server has whole pushes, and the worker waits for each");
  for (const node of nodes) await node.succeeds();
});

for (const consistency of ["bsp", "asp"]) {
  test(`a server that was killed comes back from its checkpoint, and training goes on (${consistency})`, async () => {
    using folder = temporaryFolder();
    await using cluster = await Cluster.create({ servers: 2, workers: 2, flags: ["--checkpoint-dir", folder.path] });
    const scheduler = cluster.scheduler();
    const [first, killed] = [cluster.server(0), cluster.server(1)];
    const workers = [0, 1].map((rank) => cluster.worker(rank, "steady-trainer", "--consistency", consistency));
    const [saver] = workers;
    assert.ok(saver !== undefined);
    await saver.says(/^saved clock \d+$/, 3);
    await killed.kill();
    await until(() => workers.some((worker) => worker.count(/^step failed: NODE_DEAD: server 1 is dead$/) > 0), "a step to fail");
    const [, saved] = [...saver.stdout.matchAll(/^saved clock (\d+)$/gm)].at(-1) ?? [];
    const restored = cluster.weighbridge(["server", ...cluster.flags, "--rank", 1, "--restore", folder.path]);
    await until(() => workers.some((worker) => worker.count(/^goes on at clock \d+$/) > 0), "training to go on");
    for (const worker of workers) if (worker.count(/^step failed/) > 0) await worker.says(/^goes on at clock \d+$/);
    for (const worker of workers) worker.endInput();
    for (const worker of workers) {
      const [, clock, least] = await worker.says(/^ends at clock (\d+) with rows of (\d+) to (\d+)$/);
      assert.ok(Number(clock) >= Number(saved));
      assert.ok(Number(least) >= 2 * Number(saved), `rows of ${least}, after a checkpoint of clock ${saved}`);
    }
    for (const node of [...workers, first, restored, scheduler]) await node.succeeds();
  });
}

const SAVE = `
import { saveSample } from "./test/support/checkpoint-stage.ts";
const error = await saveSample({ root: process.argv[1], step: 2, shard: { headerBytes: 64 * 1024 } }).catch((thrown) => thrown);
console.log(error.code, error.message);
`;

test("a file system that takes no more is an error that names the file, and leaves the checkpoint before", {
  skip: process.platform === "win32" && "no ulimit",
}, async () => {
  using folder = temporaryFolder();
  await saveSample({ root: folder.path, step: 1 });
  // In blocks of 512 or 1024 bytes.
  const limited = `ulimit -f 16; exec "$0" --input-type=module-typescript -e "$1" "$2"`;
  const { stdout, stderr } = spawnSync("sh", ["-c", limited, process.execPath, SAVE, folder.path], { cwd: ROOT, encoding: "utf8" });
  assert.match(
    stdout,
    /^CHECKPOINT_IO cannot write .*server-000-000\.safetensors\.tmp: the file would be larger than is allowed here \(EFBIG\)$/m,
    stderr,
  );
  assert.deepEqual(readdirSync(folder.path).sort(), ["latest", "step-000001"]);
  await using processes = new Processes();
  await processes.weighbridge(["checkpoint", "verify", folder.path]).succeeds();
});

const LOAD = `
import sys
from safetensors.numpy import load_file
model = load_file(sys.argv[1])
print(sorted((name, str(tensor.dtype), tensor.shape) for name, tensor in model.items()))
row = list(model["users/keys"]).index(2**64 - 1 - 5)
print(model["layer1/weights"][9].tolist(), model["users/values"][row].tolist())
shard = load_file(sys.argv[2])
print(shard["layer1/weights/rows/3:6/values"].tolist()[0], shard["users/parts/8:16/0/keys"].dtype)
`;
const hasPython = spawnSync("python3", ["-c", "import safetensors.numpy"]).status === 0;

test("Python's safetensors loads an export and the shards themselves", {
  skip: !hasPython && "there is no python3 with safetensors and numpy",
}, async () => {
  using folder = temporaryFolder();
  await using processes = new Processes();
  const { path } = await saveSample({ root: folder.path, step: 1 });
  const file = join(folder.path, "model.safetensors");
  await processes.weighbridge(["checkpoint", "export", folder.path, file]).succeeds();
  const { stdout, stderr } = spawnSync("python3", ["-c", LOAD, file, join(path, "server-001-000.safetensors")], { encoding: "utf8" });
  assert.deepEqual(
    stdout.split("\n"),
    [
      "[('layer1/weights', 'float32', (10, 2, 2)), ('users/keys', 'uint64', (32,)), ('users/values', 'float32', (32, 3))]",
      "[[90.5, 91.5], [92.5, 93.5]] [5.0, 5.25, 5.5]",
      "[30.5, 31.5, 32.5, 33.5] uint64",
      "",
    ],
    stderr,
  );
});
