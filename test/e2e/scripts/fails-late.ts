// fails-late — a worker that connects, and then ends with an error, each time it is started.

import { connect } from "weighbridge";

await connect();
process.exit(3);
