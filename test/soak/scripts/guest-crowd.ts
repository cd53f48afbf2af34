// Guests that come together: guest-crowd.ts ADDRESS COUNT ROUNDS stay|leave. Each reads and pushes; they leave and
// others come, ROUNDS times; with "stay" the last do not leave, and push again after a message: how many were FENCED is
// the answer.

import { connect, isWeighbridgeError, type Session } from "weighbridge";

const [address = "", count, rounds, end] = process.argv.slice(2);
const AT_A_TIME = 10;
const KEYS = Array.from({ length: 50 }, (_, i) => i * 7);

async function visit(): Promise<Session> {
  const guest = await connect(address, { logLevel: "silent" });
  const [tensor, rows] = await Promise.all([guest.tensor("delayed"), guest.embedding("linked")]);
  await Promise.all([tensor.pull(), rows.pull(KEYS)]);
  await Promise.all([tensor.push(new Float32Array(4096)), rows.push(KEYS, new Float32Array(8 * KEYS.length))]);
  await rows.pull(KEYS);
  return guest;
}

async function comesLate(guest: Session): Promise<boolean> {
  try {
    const rows = await guest.embedding("linked", { timeoutMs: 10_000 });
    await rows.push(KEYS, new Float32Array(8 * KEYS.length).fill(1), { timeoutMs: 10_000 });
    return false;
  } catch (thrown) {
    return isWeighbridgeError(thrown, "FENCED");
  }
}

for (let round = 1; ; round++) {
  const guests: Session[] = [];
  while (guests.length < Number(count)) guests.push(...(await Promise.all(Array.from({ length: AT_A_TIME }, visit))));
  if (round === Number(rounds) && end === "stay") {
    process.once("message", () => {
      void Promise.all(guests.map(comesLate)).then((late) => process.send?.(late.filter(Boolean).length));
    });
    break;
  }
  await Promise.all(guests.map((guest) => guest.close()));
  if (round === Number(rounds)) break;
}
process.send?.("ready");
