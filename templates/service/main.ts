// A web service that ranks items for users, and learns from every click.
//   GET  /rank?user=anna&item=tea&item=coffee    the items, the likeliest first
//   POST /click?user=anna&item=tea
// It is a guest of the cluster that CLUSTER names, such as weighbridge://127.0.0.1:9700, and any number of it may run.
// Without CLUSTER, a cluster inside this process stands in: to try it out.

import { createServer } from "node:http";
import { connect, type Session } from "weighbridge";
import { EmbeddedCluster } from "weighbridge/embedded";

const { CLUSTER, PORT = "8080" } = process.env;
const session: Session = CLUSTER === undefined ? (await EmbeddedCluster.start({ servers: 2 })).session : await connect(CLUSTER);

const table = { dim: 8, optimizer: { type: "adagrad", learningRate: 0.1 } } as const;
const users = await session.embedding("users", { ...table, init: { type: "normal", std: 0.1, seed: 1 } });
const items = await session.embedding("items", { ...table, init: { type: "normal", std: 0.1, seed: 2 } });

function dot(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, value, i) => sum + value * (b[i] ?? 0), 0);
}

async function rank(user: string, names: readonly string[]): Promise<string[]> {
  const [row, rows] = await Promise.all([users.pull([user]), items.pull(names)]);
  const scores = new Map(names.map((name, i) => [name, dot(row, items.row(rows, i))]));
  return [...names].sort((a, b) => (scores.get(b) ?? 0) - (scores.get(a) ?? 0));
}

async function click(user: string, item: string): Promise<void> {
  const [u, i] = await Promise.all([users.pull([user]), items.pull([item])]);
  const error = 1 / (1 + Math.exp(-dot(u, i))) - 1; // of a logistic loss, with a click as 1
  const [forUser, forItem] = [i.map((x) => error * x), u.map((x) => error * x)];
  await Promise.all([users.push([user], forUser), items.push([item], forItem)]);
}

const server = createServer(async (request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://localhost");
  const user = searchParams.get("user") ?? "";
  try {
    if (pathname === "/rank") response.end(`${JSON.stringify(await rank(user, searchParams.getAll("item")))}\n`);
    else if (pathname === "/click" && request.method === "POST") {
      await click(user, searchParams.get("item") ?? "");
      response.end("learned\n");
    } else response.writeHead(404).end();
  } catch (error) {
    response.writeHead(503).end(`${String(error)}\n`);
  }
});
server.listen(Number(PORT), () => console.log(`serving at http://localhost:${PORT}, cluster: ${CLUSTER ?? "inside this process"}`));
