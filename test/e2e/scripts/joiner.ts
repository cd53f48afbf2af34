// joiner — a node of any role that joins its cluster and leaves it again. Does what ps-lite's test_connection does.

import { start } from "weighbridge/node";

const office = await start();
await office.finalize();
