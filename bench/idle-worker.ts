// idle-worker — a worker that connects through the door named by its argument, says so, and does nothing until its input ends.

const { connect } = (await import(process.argv[2]!)) as typeof import("../src/node/weighbridge.ts");
await connect();
process.stdout.write("registered\n");
process.stdin.resume().on("end", () => process.exit(0));
