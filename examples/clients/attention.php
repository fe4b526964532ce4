<?php
// attention.php [URL] - one attention with nothing but PHP itself.
$url = $argv[1] ?? 'http://127.0.0.1:8080';

$body = file_get_contents("$url/v1/attention", false, stream_context_create(['http' => [
    'method' => 'POST',
    'header' => 'Content-Type: application/json',
    'content' => json_encode([
        'model' => 'demo',
        'query' => [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]],
        'outputs' => ['context', 'weights'],
    ]),
    'ignore_errors' => true, // a fault has a body too
]]));
if ($body === false) {
    exit(1);
}
$answer = json_decode($body, true, 512, JSON_THROW_ON_ERROR);
if (isset($answer['error'])) {
    fwrite(STDERR, $answer['error'] . "\n");
    exit(1);
}

foreach (['context' => $answer['context'], 'weights' => $answer['weights'][0]] as $name => $rows) {
    echo "$name\n";
    foreach ($rows as $row) {
        echo implode(' ', array_map(fn ($number) => sprintf('%.4f', $number), $row)), "\n";
    }
}
