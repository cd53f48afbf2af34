// idle-worker — a worker that connects through the door named by its argument, says so, and does nothing until its
// input ends. In JavaScript: what Node takes to strip the types of a script in TypeScript, 15 MB, is not the package's.

const { connect } = await import(process.argv[2]);
await connect();
process.stdout.write("registered\n");
process.stdin.resume().on("end", () => process.exit(0));
