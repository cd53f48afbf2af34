// suspicious — a worker that tries to connect where what is lost is lost for good, and is aborted. With "own" its
// script alone asks for that, and it connects as it should then. Otherwise its environment does, and it ends with exit
// code 1.

import { connect } from "weighbridge";

const isOwn = process.argv[2] === "own";
const asked = isOwn ? { faults: { dropPercent: 3 }, resendTimeoutMs: 0 } : {};
await connect({ ...asked, signal: AbortSignal.abort() }).catch(() => {});
if (!isOwn) process.exit(1);
const session = await connect();
await session.close();
