//! The public reference server `@modelcontextprotocol/server-everything`. `AGENTD_TEST_PEERS` names a folder with its
//! `node_modules`; where it is set, a peer that is missing or does not start is a failure.
