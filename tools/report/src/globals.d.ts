/* SPDX-License-Identifier: Apache-2.0 */
/* What build.mjs provides beyond TypeScript's own. */
declare module 'worker:*' {
    const program: string;
    export default program;
}
