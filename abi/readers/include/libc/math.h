#ifndef HOTFIRE_STUB_MATH_H
#define HOTFIRE_STUB_MATH_H
#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define HUGE_VAL (__builtin_huge_val())
#define M_PI 3.14159265358979323846
double sqrt(double x);
double exp(double x);
double log(double x);
double pow(double x, double y);
double fabs(double x);
float sqrtf(float x);
float expf(float x);
float fabsf(float x);
#endif
