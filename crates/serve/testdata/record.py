"""Records what a kube-proxy answers, for the tests of this crate.

usage: record.py REQUESTS HOST:PORT > RECORDING

REQUESTS has one request after another, each with its empty line, separated by lines of '='. The recording has each
request followed by its answer. What differs from run to run is replaced: dates, times, start times, and the length of
bodies that hold them. kube-proxy sends long bodies in chunks; they are recorded as if they had come in one piece.
"""
import re, socket, sys

RULE = "=" * 40 + "\n"


def ask(address, request):
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(request.replace("\n", "\r\n").encode())
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    return answer.decode().replace("\r\n", "\n")


def joined(answer):
    head, _, body = answer.partition("\n\n")
    if "Transfer-Encoding: chunked" not in head:
        return answer
    whole = ""
    while size := int(body.partition("\n")[0], 16):
        body = body.partition("\n")[2]
        whole, body = whole + body[:size], body[size:].removeprefix("\n")
    return head.replace("Transfer-Encoding: chunked", f"Content-Length: {len(whole)}") + "\n\n" + whole


def stable(answer):
    timeless = re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME", answer)
    timeless = re.sub(r"(Started[:= ]+)\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d UTC \d{4}", r"\1TIME", timeless)
    timeless = re.sub(r"\d+ hr \d\d min \d\d sec", "UP", timeless)
    timeless = re.sub(r'(uptimeSeconds"?: ?)\d+', r"\1UP", timeless)
    timeless = re.sub(r"go\d+\.[0-9.]+", "TOOLCHAIN", timeless)
    timeless = re.sub(r"process_start_time_seconds [0-9.e+]+", "process_start_time_seconds START", timeless)
    if timeless != answer:
        timeless = re.sub(r"Content-Length: \d+", "Content-Length: N", timeless)
    timeless = re.sub(r"Process-Start-Time-Unix: \d+", "Process-Start-Time-Unix: START", timeless)
    return re.sub(r"Date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", "Date: DATE", timeless)


if __name__ == "__main__":
    requests = open(sys.argv[1]).read().split(RULE)
    sys.stdout.write(RULE.join(request + stable(joined(ask(sys.argv[2], request))) + "\n" for request in requests))
