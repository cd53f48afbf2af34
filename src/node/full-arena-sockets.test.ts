// Goal: over real sockets too a server that is full is saved and updated, whoever pushes meanwhile and however much
// (Arena.A4 and Arena.A5).

import assert from "node:assert/strict";
import { test } from "node:test";
import { temporaryFolder } from "../../test/support/checkpoint-stage.ts";
import { Session } from "../api/session.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import type { Postoffice } from "../faces/kv/postoffice.ts";
import type { Embedding } from "../worker/embedding.ts";
import { verifyCheckpoint } from "./checkpoint/verify-checkpoint.ts";
import { loadConfig } from "./config/config.ts";
import { freePort } from "./launcher/free-port.ts";
import { nodeSessions } from "./node-sessions.ts";
import { officeOver } from "./start.ts";

const MIB = 2 ** 20;
const DIM = 16;
const BATCH = 8_000;

/** One node of each role in this process, over TCP. */
class SocketCluster implements AsyncDisposable {
  readonly session: Session;
  readonly #offices: readonly Postoffice[];

  private constructor(session: Session, offices: readonly Postoffice[]) {
    this.session = session;
    this.#offices = offices;
  }

  static async start(env: Readonly<Record<string, string>>): Promise<SocketCluster> {
    const port = String(await freePort("127.0.0.1"));
    const where = { DMLC_PS_ROOT_URI: "127.0.0.1", DMLC_PS_ROOT_PORT: port, DMLC_NUM_SERVER: "1", DMLC_NUM_WORKER: "1" };
    const common = { ...where, WEIGHBRIDGE_LOG_LEVEL: "silent", ...env };
    const node = (role: string): Promise<Postoffice> =>
      officeOver(loadConfig({ env: { ...common, DMLC_ROLE: role } }), { sessions: nodeSessions });
    const offices = await Promise.all(["worker", "server", "scheduler"].map(node));
    return new SocketCluster(await Session.open((offices[0] as Postoffice).node), offices);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#offices.map((office) => office.close()));
  }
}

/** Pushes new rows until no batch of them is taken; returns how many there are. */
async function fill(table: Embedding): Promise<number> {
  for (let rowCount = 0; ; rowCount += BATCH) {
    try {
      await table.push(keysFrom(rowCount, BATCH), new Float32Array(BATCH * DIM).fill(1));
    } catch (thrown) {
      assert.ok(isWeighbridgeError(thrown, "ARENA_FULL"), String(thrown));
      return rowCount;
    }
  }
}

const keysFrom = (from: number, count: number): BigUint64Array => BigUint64Array.from({ length: count }, (_, i) => BigInt(from + i));

test("a full server is saved while the worker that takes the checkpoint pushes whole tables", async () => {
  using folder = temporaryFolder();
  await using cluster = await SocketCluster.start({
    WEIGHBRIDGE_ARENA_BYTES_MAX: String(64 * MIB),
    WEIGHBRIDGE_CHECKPOINT_DIR: folder.path,
  });
  const { session } = cluster;
  const table = await session.embedding("table", { dim: DIM, optimizer: { type: "adam" } });
  const rowCount = await fill(table);
  assert.ok(rowCount > 100_000, `${rowCount} rows`);
  const [keys, ones] = [keysFrom(0, rowCount), new Float32Array(rowCount * DIM).fill(1)];
  for (let attempt = 0; attempt < 3; attempt++) {
    const [{ path }] = await Promise.all([session.checkpoint().saved, table.push(keys, ones), table.push(keys, ones)]);
    assert.deepEqual((await verifyCheckpoint(path)).problems, []);
  }
});
