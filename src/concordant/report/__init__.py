"""Pictures and reports of the user's own data: everything that is drawn rather than computed.

`plots` holds one function per picture, each taking what the public API returns and giving back Matplotlib axes;
`agreement` the numbers of who agrees with whom.
"""
